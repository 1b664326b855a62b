"""Run a training again, with a fix or with the text of a patch in place of a file, and whether that
reached it."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from perftui.facts.overrides import AppliedOverride, Arrival, overrides
from perftui.facts.settings import Settings, settings
from perftui.fixes.apply import check_unchanged, patch_store
from perftui.fixes.model import FixOption, Patch
from perftui.recorder.environment import options_of
from perftui.recorder.launch import Launch
from perftui.run.columns import stack_rate_of
from perftui.run.files import replace_file
from perftui.run.manifest import Expected, Override
from perftui.run.origin import check_run
from perftui.run.reader import RunSnapshot


def source_override(run: RunSnapshot, option: FixOption) -> Override:
    """The override that runs the patch of ``option``, whose text is kept beside the originals of
    patches.

    Raises:
        ValueError: the option has no patch, the command does not name its script by a path, or the
            file is no longer what the patch was made from.
        OSError: the text cannot be kept.
    """
    patch, word = option.patch, option.script_word
    if patch is None or word is None:
        raise ValueError(option.why_not_tried)
    check_unchanged(patch)
    kept = kept_text(patch_store(run.root), patch.path, patch.after)
    return text_override(run.manifest.command, word, patch.path, kept, option.fix)


def text_override(
    command: Sequence[str], word: int, path: Path, text: Path, fix: str | None = None
) -> Override:
    """The override that runs what is in ``text`` in place of ``path``, where ``word`` of the
    ``command`` names its script."""
    given = {"source": str(text), "word": word, "script": command[word]}
    return Override("source", given, str(path), fix=fix)


def kept_text(store: Path, path: Path, content: bytes) -> Path:
    """A file in ``store`` that holds ``content``, one of the texts of ``path``.

    Raises:
        OSError: it cannot be written.
    """
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256(content).hexdigest()
    kept = store.resolve() / f"text-{digest[:16]}-{path.name}"
    replace_file(kept, content)
    return kept


class Form(str, enum.Enum):
    """How the fix gets into the run."""

    OVERRIDE = "override"
    """At run time; the source is not touched."""
    SOURCE = "source"
    """The fix is in the source already."""


def rerun_launch(run: RunSnapshot, option: FixOption, form: Form = Form.OVERRIDE) -> Launch:
    """The launch that repeats ``run`` with ``option``, its parent being ``run``.

    Overrides that were in force stay, except one of the same fix, which gives way. What a patch
    wrote is noted, so that a comparison can show whether it reached the training. Where the run
    recorded options of the profiler, they are used again.

    Raises:
        ForeignRunError: the run may be somebody else's, and so may its command.
        ValueError: the option cannot be tried without writing it, and ``form`` asks for that.
        OSError: the text of its patch cannot be kept beside the runs.
    """
    check_run(run.root, run.manifest)
    kept = tuple(o for o in run.manifest.overrides if o.fix != option.fix)
    written = option.patch
    if form is Form.OVERRIDE and option.override is not None:
        kept, written = (*kept, option.override), None
    elif form is Form.OVERRIDE:
        kept = (*kept, source_override(run, option))
    return replace(
        repeat_launch(run),
        overrides=kept,
        name=option.title,
        expected=(_expected(written),) if written and written.target else (),
    )


def _expected(patch: Patch) -> Expected:
    made = (patch.target or "").rpartition(".")[2]
    return Expected(made, dict(patch.arguments), str(patch.path), patch.line)


def repeat_launch(run: RunSnapshot) -> Launch:
    """The launch that repeats ``run`` as it was.

    Raises:
        ForeignRunError: the run may be somebody else's, and so may its command.
    """
    manifest = run.manifest
    check_run(run.root, manifest)
    return Launch(
        command=manifest.command,
        cwd=Path(manifest.cwd),
        runs=run.root.parent,
        overrides=manifest.overrides,
        parent=manifest.run_id,
        options=replace(options_of(manifest.profile), spares_files=False, losses=0),
        stack_samples_per_second=stack_rate_of(manifest.profile),
    )


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
