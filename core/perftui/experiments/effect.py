"""Whether a change reached the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from perftui.facts.overrides import AppliedOverride, Arrival, overrides
from perftui.facts.settings import Settings, settings
from perftui.run.manifest import Expected, Override

LOADER = "DataLoader"
OPTIMIZER = "optimizer"
SOURCE = "source"
"""Targets of overrides and patches."""

_SWITCHES: Mapping[str, Callable[[Settings], Any]] = {
    "set_num_threads": lambda known: known.threads and known.threads.intra_op,
    "set_detect_anomaly": lambda known: known.modes and known.modes.anomaly,
    "use_deterministic_algorithms": lambda known: known.modes and known.modes.deterministic,
}
"""By the function whose call was patched, what is in force now; None where that is not known."""

UNSAID = "the run does not record whether the change was applied"


def missed(after: Facts) -> str:
    """Which of the changes that a fix gave the run did not reach its training and why, empty where
    all did.

    Every override has to be noted as applied, and what was written to the source has to be in force
    where it was written.
    """
    reasons = [
        *(_missed_override(after, applied) for applied in overrides(after)),
        *(
            _missed_patch(after, expected)
            for expected in (after.manifest.patched if after.manifest else ())
        ),
    ]
    return next(filter(None, reasons), "")


def _missed_override(after: Facts, applied: AppliedOverride) -> str:
    asked = _asked(applied.override)
    at = f" at {applied.place}" if applied.place else ""
    if applied.arrival is Arrival.UNKNOWN:
        return UNSAID
    if applied.arrival in (Arrival.NEVER_REACHED, Arrival.NOT_YET):
        return f"{asked} did not reach the training: {applied.why}"
    if applied.arrival is Arrival.REFUSED:
        return f"{asked} was refused{at} ({applied.why})"
    if applied.override.target == LOADER:
        why = applied.why or "it is created elsewhere"
        return _missed_loader(training_loader(after), applied.override.arguments, why)
    if applied.arrival is Arrival.PARTLY:
        return f"{asked} reached the training only in part{at} ({applied.why})"
    return ""


def _missed_patch(after: Facts, expected: Expected) -> str:
    if expected.target == LOADER:
        why = "the edited source does not decide the value"
        return _missed_loader(training_loader(after), expected.arguments, why)
    known = settings(after)
    if expected.target in _SWITCHES:
        return _missed_switch(expected, known)
    made = known.optimizers if known else None
    if made is None:
        return UNSAID
    here = [
        one
        for one in made
        if expected.target in (OPTIMIZER, one.class_name)
        and one.is_made_at(expected.file, expected.line)
    ]
    if not here:
        at = f" at {Path(expected.file).name}:{expected.line}" if expected.file else ""
        return (
            f"{_arguments(expected.arguments)} did not reach the training: nothing was created{at}"
        )
    for one in here:
        if lost := _lost(one, expected.arguments):
            given = ", ".join(f"{name}={getattr(one, name, None)}" for name in lost)
            return f"{', '.join(lost)} had no effect at {one.source} ({one.class_name} has {given})"
    return ""


def _missed_switch(expected: Expected, known: Settings | None) -> str:
    found = _SWITCHES[expected.target](known) if known else None
    if found is None:
        return UNSAID
    if found in expected.arguments.values():
        return ""
    return f"{_arguments(expected.arguments)} had no effect: {expected.target} left {found}"


def _missed_loader(loader: LoaderFacts | None, wanted: Mapping[str, Any], why: str) -> str:
    if loader is None:
        return UNSAID
    lost = _lost(loader, wanted)
    return f"{', '.join(lost)} had no effect at the training's loader ({why})" if lost else ""


def _lost(made: object, wanted: Mapping[str, Any]) -> list[str]:
    return [name for name, value in wanted.items() if getattr(made, name, None) != value]


def _asked(override: Override) -> str:
    if override.target == SOURCE and override.file:
        return f"the patch of {Path(override.file).name}"
    return _arguments(override.arguments)


def _arguments(wanted: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in wanted.items())
