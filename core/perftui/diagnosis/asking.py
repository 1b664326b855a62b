"""What the next window of a run is asked to record: whoever judges it meanwhile asks.

One question at a time, the most valuable one first, and each kind of evidence once: what a window
was asked for and could not record would not be in the next one either.
"""

from __future__ import annotations

from perftui.diagnosis.model import Diagnosis
from perftui.facts.fact import Facts, notes_of
from perftui.facts.question import Evidence, Question
from perftui.recorder.environment import options_of
from perftui.run.columns import ASKED

WORTH = 0.05
"""Share of the step from which an answer is worth a window: losses are warnings from there."""


def question_to_ask(diagnosis: Diagnosis, facts: Facts) -> Question | None:
    """The question that the next window should answer; None without one, or while one is asked."""
    if facts.manifest is None or facts.manifest.status.is_over or _awaited(facts):
        return None
    options = options_of(facts.manifest.profile)
    plans = options.profile and not options.nsys and options.first_step is None
    if not plans or not options.overhead:
        return None
    has = {*_asked(facts), *(one for one in Evidence if getattr(options, one.value))}
    left = (one for one in diagnosis.questions if one.evidence not in has and one.share >= WORTH)
    return next(left, None)


def asking(diagnosis: Diagnosis, facts: Facts) -> str:
    """What the next window will record, and what for; empty if nothing was asked for."""
    if facts.manifest is None or facts.manifest.status.is_over or not (awaited := _awaited(facts)):
        return ""
    texts = (one.text for one in diagnosis.questions if one.evidence in awaited)
    return f"asking: {next(texts, awaited[0].words)}"


def _asked(facts: Facts) -> list[Evidence]:
    asked = facts.manifest.profile.get(ASKED) if facts.manifest else None
    return [one for one in Evidence if isinstance(asked, list) and one.value in asked]


def _awaited(facts: Facts) -> list[Evidence]:
    """What was asked for and no window was to record so far."""
    done = {name for data in notes_of(facts.events, "window") for name in data.get(ASKED, ())}
    return [one for one in _asked(facts) if one.value not in done]
