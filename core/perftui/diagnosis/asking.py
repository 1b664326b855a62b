"""What the next window of a run is asked to record: whoever judges it meanwhile asks.

One question at a time, the most valuable one first, and each kind of evidence once: what a window
was asked for and could not record would not be in the next one either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perftui.diagnosis.model import Diagnosis
from perftui.facts.fact import Facts, notes_of
from perftui.facts.question import Evidence, Question
from perftui.recorder.launch import options_of
from perftui.run.columns import ASKED

WORTH = 0.05
"""Share of the step from which an answer is worth a window: losses are warnings from there."""


def question_to_ask(diagnosis: Diagnosis, facts: Facts) -> Question | None:
    """The question that the next window should answer; None without one, or while one is asked."""
    if facts.manifest is None or facts.manifest.status.is_over or _awaited(facts):
        return None
    options = options_of(facts.manifest.profile)
    plans = options.profile and not options.nsys and options.first_step is None
    return next(iter(worth_asking(diagnosis, facts)), None) if plans and options.overhead else None


def worth_asking(diagnosis: Diagnosis, facts: Facts) -> list[Question]:
    """The questions about a run that another window may answer, most valuable first."""
    if facts.manifest is None:
        return []
    options, had = options_of(facts.manifest.profile), recorded(facts)
    has = [one for one in Evidence if getattr(options, one.value) or one in had]
    return [one for one in diagnosis.questions if one.evidence not in has and one.share >= WORTH]


def asking(diagnosis: Diagnosis, facts: Facts) -> str:
    """What the next window will record, and what for; empty if nothing was asked for."""
    if facts.manifest is None or facts.manifest.status.is_over or not (awaited := _awaited(facts)):
        return ""
    texts = (one.text for one in diagnosis.questions if one.evidence in awaited)
    return f"asking: {next(texts, awaited[0].words)}"


def _awaited(facts: Facts) -> list[Evidence]:
    """What was asked for and no window was to record so far."""
    asked, had = _named(facts.manifest.profile if facts.manifest else {}), recorded(facts)
    return [one for one in asked if one not in had]


def recorded(facts: Facts) -> list[Evidence]:
    """What windows were to record because it was asked for."""
    return [one for data in notes_of(facts.events, "window") for one in _named(data)]


def _named(data: Mapping[str, Any]) -> list[Evidence]:
    names = data.get(ASKED)
    return [one for one in Evidence if isinstance(names, list) and one.value in names]
