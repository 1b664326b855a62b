"""Run a training again, with a fix or with the text of a patch in place of a file, and whether that
reached it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts, fact, notes_of
from perftui.facts.settings import Settings, fields_of, settings
from perftui.facts.source.source_calls import compared_sources
from perftui.fixes.apply_and_undo import (
    AppliedPatch,
    applied_patches,
    check_unchanged,
    digest,
    patch_store,
)
from perftui.fixes.option import FixOption, Risk
from perftui.recorder.launch import Launch, options_of
from perftui.run.columns import stack_rate_of
from perftui.run.files import replace_file
from perftui.run.layout import without_time
from perftui.run.manifest import Expected, Override
from perftui.run.origin import ForeignRunError, check_run
from perftui.run.reader import RunSnapshot
from perftui.script.command_line import script_of


class Arrival(str, enum.Enum):
    """How far an override has come."""

    APPLIED = "applied"
    PARTLY = "partly"
    """Some arguments, or at some of the calls."""
    REFUSED = "refused"
    NEVER_REACHED = "never reached"
    """The run is over, and nothing was created at the call."""
    NOT_YET = "not yet"
    """The run goes on, and nothing has been made at the call."""
    UNKNOWN = "unknown"
    """Not known from the run: it trained too little, or an older version recorded it."""


@dataclass(frozen=True)
class AppliedOverride:
    """One override of the manifest, and its result."""

    override: Override
    arrival: Arrival
    why: str = ""
    """The reasons against, or what is missing; empty where it was applied."""
    file: str | None = None
    line: int | None = None
    """Where it was applied or refused, the first of several places."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values in force there."""

    @property
    def place(self) -> str:
        """``file:line`` of the call, or of the one it was meant for; empty where none is known."""
        file = self.file or self.override.file
        line = self.line or self.override.line
        return f"{Path(file).name}:{line}" if file else ""


@fact
def overrides(facts: Facts) -> tuple[AppliedOverride, ...]:
    """The result of each override of the manifest, by the notes of all ranks; none without a
    run."""
    run = facts.run
    if run is None:
        return ()
    notes = [note for rank in run.ranks for note in notes_of(rank.events, "override")]
    notes_all = any(notes_of(rank.events, "settings") for rank in run.ranks)
    return tuple(
        _applied(override, [note for note in notes if note.get("number") == number], run, notes_all)
        for number, override in enumerate(run.manifest.overrides)
    )


def _applied(
    override: Override, notes: Sequence[Mapping[str, Any]], run: RunSnapshot, notes_all: bool
) -> AppliedOverride:
    """The result of ``override``; ``notes_all``: the run is known to note every override."""
    unknown = AppliedOverride(override, Arrival.UNKNOWN)
    if not notes:
        return _not_made(override, run.manifest.status.is_over) if notes_all else unknown
    outcomes = {note.get("outcome") for note in notes}
    arrival = Arrival.PARTLY
    if len(outcomes) == 1 and (outcome := outcomes.pop()) in ("applied", "refused"):
        arrival = Arrival(outcome)
    # If several calls were made, the one that lacks something is named.
    shown = next((note for note in notes if note.get("outcome") != "applied"), notes[0])
    fields = fields_of(AppliedOverride, shown)
    return AppliedOverride(**{**fields, "override": override, "arrival": arrival})


def _not_made(override: Override, is_over: bool) -> AppliedOverride:
    unmade = AppliedOverride(override, Arrival.NEVER_REACHED if is_over else Arrival.NOT_YET)
    what = f"no {override.target} was created"
    if override.target == "source" and override.file:
        what = f"{Path(override.file).name} was not run in the training process"
    elif override.target == "parameters":
        what = "the training has made fewer than three steps"
    elif unmade.place:
        what = f"nothing was created at {unmade.place}"
    return replace(unmade, why=what if is_over else f"{what} so far")


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
    text = kept_text(patch_store(run.root), patch.path, patch.after)
    return text_override(run.manifest.command, word, patch.path, text, option.fix)


def text_override(
    command: Sequence[str], word: int, path: Path, text: Path, fix: str | None = None
) -> Override:
    """The override that runs the file ``text`` in place of ``path``, where ``word`` of the
    ``command`` names its script."""
    arguments = {"source": str(text), "word": word, "script": command[word]}
    return Override("source", arguments, str(path), fix=fix)


def kept_text(store: Path, path: Path, content: bytes) -> Path:
    """A file in ``store`` that holds ``content``, one of the texts of ``path``. Raises OSError if
    it cannot be written."""
    store.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = store.resolve() / f"text-{digest(content)[:16]}-{path.name}"
    replace_file(file, content)
    return file


def rerun_launch(run: RunSnapshot, option: FixOption, *, is_written: bool = False) -> Launch:
    """The launch that repeats ``run`` with ``option``, its parent being ``run``; ``is_written``
    where the fix is in the source already, else it is made at run time.

    Overrides that were in force stay, except one of the same fix, which gives way. What a patch
    wrote is noted, so that a comparison can show whether it reached the training. Where the run
    recorded options of the profiler, they are used again.

    Raises:
        ForeignRunError: the run may be somebody else's, and so may its command.
        ValueError: the option cannot be tried without writing it.
        OSError: the text of its patch cannot be kept beside the runs.
    """
    check_run(run.root, run.manifest)
    overrides = tuple(o for o in run.manifest.overrides if o.fix != option.fix)
    written = option.patch
    if not is_written and option.override is not None:
        overrides, written = (*overrides, option.override), None
    elif not is_written:
        overrides = (*overrides, *(option.after or [source_override(run, option)]))
    expected: tuple[Expected, ...] = ()
    if written and written.target:
        target, arguments = written.target.rpartition(".")[2], dict(written.arguments)
        expected = (Expected(target, arguments, str(written.path), written.line),)
    return replace(repeat_launch(run), overrides=overrides, name=option.title, expected=expected)


def own_edit(before: Facts, after: Facts) -> FixOption | None:
    """What a person changed in the source between two runs of a script, as pairs of runs try it:
    from the copies that both runs keep. None where those are the same, or may not be run."""
    script, copies = script_of(before.manifest), compared_sources(before, after)
    changed = {path: pair for path, pair in copies.items() if pair is not None}
    if after.run is None or script is None or script.word is None or not changed:
        return None
    try:
        check_run(after.run.root, after.run.manifest)
    except ForeignRunError:
        return None
    command = after.run.manifest.command
    texts = [
        tuple(
            text_override(command, script.word, path, pair[side], OWN_EDIT)
            for path, pair in changed.items()
        )
        for side in range(2)
    ]
    names = ", ".join(path.name for path in changed)
    # A run may be followed by several edits: their proofs are told apart by the title.
    title = f"your edit of {names} in {without_time(after.run.root.name)}"
    explained = "The source as it was when either run began, from the copies that they keep."
    return FixOption(OWN_EDIT, title, explained, (Risk.EDIT,), before=texts[0], after=texts[1])


def written_between(before: Facts, after: Facts) -> list[AppliedPatch]:
    """The patch that made the source of the second run of that of the first, where one did all."""
    changed = [pair for pair in compared_sources(before, after).values() if pair is not None]
    if before.run is None or len(changed) != 1:
        return []
    sides = tuple(digest(copy.read_bytes()) for copy in changed[0])
    every = applied_patches(patch_store(before.run.root))
    return [one for one in every if (one.before_sha256, one.after_sha256) == sides]


def repeat_launch(run: RunSnapshot, option: FixOption | None = None) -> Launch:
    """The launch that repeats ``run`` as it was, before a person's edit where ``option`` is one.
    Raises ForeignRunError if the run may be somebody else's, and so may its command."""
    manifest, edited = run.manifest, option.before if option else ()
    check_run(run.root, manifest)
    return Launch(
        command=manifest.command,
        cwd=Path(manifest.cwd),
        runs=run.root.parent,
        overrides=(*manifest.overrides, *edited),
        # What ended before its first step is nothing to compare with: what it repeated is.
        parent=(not any(rank.steps for rank in run.ranks) and manifest.parent) or manifest.run_id,
        options=replace(options_of(manifest.profile), spares_files=False, losses=0),
        stack_samples_per_second=stack_rate_of(manifest.profile),
    )


LOADER = "DataLoader"
OPTIMIZER = "optimizer"
SOURCE = "source"
"""Targets of overrides and patches."""

OWN_EDIT = "own-edit"
"""What a person changed between two runs, where a fix has its name."""

_SWITCHES: Mapping[str, Callable[[Settings], Any]] = {
    "set_num_threads": lambda setup: setup.threads.intra_op,
    "set_detect_anomaly": lambda setup: setup.modes.anomaly,
    "use_deterministic_algorithms": lambda setup: setup.modes.deterministic,
}
"""The value in force now, by the function whose call was patched; None where it is not known."""

UNSAID = "the run does not record whether the change was applied"


def missed(after: Facts) -> str:
    """A change that a fix gave the run and that did not reach its training, with the reason; empty
    where all did.

    Every override has to be noted as applied, and what was written to the source has to be in force
    where it was written."""
    patched = after.manifest.patched if after.manifest else ()
    reasons = [_missed_override(after, applied) for applied in overrides(after)]
    reasons += [_missed_patch(after, expected) for expected in patched]
    return next(filter(None, reasons), "")


def _missed_override(after: Facts, applied: AppliedOverride) -> str:
    asked = _asked_for(applied.override)
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
    setup = settings(after)
    if expected.target in _SWITCHES:
        value = _SWITCHES[expected.target](setup)
        if value is None:
            return UNSAID
        had_effect = value in expected.arguments.values()
        asked = _arguments(expected.arguments)
        return "" if had_effect else f"{asked} had no effect: {expected.target} left {value}"
    if setup.optimizers is None:
        return UNSAID
    here = [
        optimizer
        for optimizer in setup.optimizers
        if expected.target in (OPTIMIZER, optimizer.class_name)
        and optimizer.is_made_at(expected.file, expected.line)
    ]
    if not here:
        at = f" at {Path(expected.file).name}:{expected.line}" if expected.file else ""
        return (
            f"{_arguments(expected.arguments)} did not reach the training: nothing was created{at}"
        )
    for row in here:
        if lost := _lacking(row, expected.arguments):
            now = ", ".join(f"{name}={getattr(row, name, None)}" for name in lost)
            return f"{', '.join(lost)} had no effect at {row.source} ({row.class_name} has {now})"
    return ""


def _missed_loader(loader: LoaderFacts | None, wanted: Mapping[str, Any], why: str) -> str:
    if loader is None:
        return UNSAID
    lost = _lacking(loader, wanted)
    return f"{', '.join(lost)} had no effect at the training's loader ({why})" if lost else ""


def _lacking(part: object, wanted: Mapping[str, Any]) -> list[str]:
    return [name for name, value in wanted.items() if getattr(part, name, None) != value]


def _asked_for(override: Override) -> str:
    if override.target == SOURCE and override.file:
        return f"the patch of {Path(override.file).name}"
    return _arguments(override.arguments)


def _arguments(wanted: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in wanted.items())
