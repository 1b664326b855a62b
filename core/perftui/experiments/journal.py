"""What trials came to, kept beside their runs: proofs of fixes, and the journal of a tuning."""

from __future__ import annotations

import enum
import operator
import re
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from perftui.experiments.trial_verdict import Outcome
from perftui.fixes.apply_and_undo import applied_patches, patch_store
from perftui.fixes.option import FixOption, Risk
from perftui.run.files import read_or_none, replace_file
from perftui.run.layout import PRIVATE_MODE, is_run_directory, trials_of

if TYPE_CHECKING:
    from perftui.experiments.trial_runs import Progress

PROOF_SCHEMA = 1

LARGEST = 1 << 20
"""Bytes beyond which a file is none of ours."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class ProvenPair:
    """Mean steps of two runs, with the fix and without."""

    before_ns: int
    after_ns: int


@dataclass(frozen=True)
class Proof:
    """The result of a trial by pairs of runs."""

    fix: str
    title: str
    """The change that was tried: a fix may propose another one later."""
    outcome: Outcome
    headline: str
    pairs: tuple[ProvenPair, ...]
    measured_ns: int
    """When the last pair had ended, ns since the epoch."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    notes: tuple[str, ...] = ()
    schema: int = PROOF_SCHEMA

    def is_of(self, option: FixOption) -> bool:
        """Whether that very change was tried."""
        return self.fix == option.fix and self.title == option.title

    @property
    def is_faster(self) -> bool:
        """Whether the fix is proven to gain."""
        return self.outcome is Outcome.FASTER


def proof_of(option: FixOption, progress: Progress, now_ns: int) -> Proof | None:
    """The proof of ``option`` by the pairs so far; None where they say nothing yet."""
    verdict = progress.verdict
    if verdict.estimate is None and not verdict.outcome.is_decided:
        return None
    return Proof(
        option.fix,
        option.title,
        verdict.outcome,
        verdict.headline,
        tuple(ProvenPair(pair.before.step_ns, pair.after.step_ns) for pair in progress.pairs),
        now_ns,
        *_interval(progress),
        progress.notes,
    )


def _interval(progress: Progress) -> tuple[float | None, float | None, float | None]:
    """The ratio so far, and both ends of its interval; all None before there is one."""
    estimate = progress.verdict.estimate
    return (estimate.ratio, estimate.low, estimate.high) if estimate else (None, None, None)


def keep_proof(option: FixOption, progress: Progress, directory: Path, now_ns: int) -> Proof | None:
    """Write what the pairs so far prove to ``directory``, and return what stands there of the fix.

    An undecided one never takes the place of one of the same change that rests on more pairs.
    Raises OSError if the directory cannot be written."""
    old, new = read_proof(directory, option.fix), proof_of(option, progress, now_ns)
    if new is None:
        return old
    is_same = old is not None and old.title == new.title
    if old and is_same and not new.outcome.is_decided and len(old.pairs) > len(new.pairs):
        return old
    write_proof(new, directory)
    return new


def write_proof(proof: Proof, directory: Path) -> None:
    """Replace what is kept of the fix in ``directory``. Raises OSError if the directory cannot be
    written."""
    directory.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    replace_file(_path(directory, proof.fix), msgspec.json.encode(proof))


def read_proof(directory: Path, fix: str) -> Proof | None:
    """The proof of ``fix``; None where none is kept, or none that can be read."""
    path = _path(directory, fix)
    proof = read_or_none(path, Proof, PROOF_SCHEMA, "the result of a trial", LARGEST)
    return proof if proof is not None and proof.fix == fix else None


def proof_of_change(directory: Path, title: str) -> Proof | None:
    """The proof in ``directory`` of the change with that title; None where none is kept."""
    fixes = (path.name.removesuffix(_ENDING) for path in directory.glob(f"*{_ENDING}"))
    proofs = (read_proof(directory, fix) for fix in fixes)
    return next((proof for proof in proofs if proof is not None and proof.title == title), None)


_ENDING = ".proof.json"


def _path(directory: Path, fix: str) -> Path:
    return directory / f"{_UNSAFE.sub('_', fix)}{_ENDING}"


SCHEMA = 1

NAME = "tune.json"
"""The journal's file, beside the runs of its trials."""


class Kept(str, enum.Enum):
    """How a proven fix is kept."""

    NO = "no"
    WRITTEN = "written"
    """Written to the source."""
    OVERRIDE = "override"
    """Set in each run that tuning makes: it could not be written."""


@dataclass(frozen=True)
class Attempt:
    """A fix that was tried on top of those kept before it."""

    fix: str
    title: str
    outcome: str
    headline: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0
    kept: Kept = Kept.NO
    path: str | None = None
    """The file that was written."""
    risks: tuple[Risk, ...] = ()
    advice: str = ""
    """What to do by hand, where the fix is kept without being written."""


@dataclass(frozen=True)
class Journal:
    """Attempts in order; ``base`` is the run recorded with all that is kept."""

    first: str
    """Directory of the run that was to be tuned."""
    base: str
    attempts: tuple[Attempt, ...] = ()
    originals: dict[str, str] = field(default_factory=dict)
    """By file that was written, a copy of its text before the first patch."""
    is_recorded: bool = True
    """Whether ``base`` has the fix that was kept last: it ended before that run was made."""
    schema: int = SCHEMA

    @property
    def kept(self) -> tuple[Attempt, ...]:
        """The attempts whose fix stays."""
        return tuple(attempt for attempt in self.attempts if attempt.kept is not Kept.NO)

    @property
    def ladder(self) -> tuple[tuple[float, Attempt], ...]:
        """Kept fixes, each with the speed-up of all up to it: the product of the single gains, an
        estimate until all are measured together."""
        ratios = accumulate((attempt.ratio or 1.0 for attempt in self.kept), operator.mul)
        return tuple(zip(ratios, self.kept, strict=True))

    @property
    def left(self) -> tuple[Attempt, ...]:
        """The attempts whose fix was not kept."""
        return tuple(attempt for attempt in self.attempts if attempt.kept is Kept.NO)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that were written, in order of the alphabet."""
        return tuple(sorted({Path(attempt.path).name for attempt in self.kept if attempt.path}))

    def after(self, attempt: Attempt) -> Journal:
        """The journal with ``attempt`` at its end."""
        return replace(self, attempts=(*self.attempts, attempt))


def attempt_of(option: FixOption, progress: Progress) -> Attempt:
    """The attempt at ``option`` that ended as ``progress``, not kept so far."""
    return Attempt(
        option.fix,
        option.title,
        progress.verdict.outcome.value,
        progress.verdict.headline,
        *_interval(progress),
        len(progress.pairs),
        risks=option.risks,
    )


def journal_of(first: Path, directory: Path) -> Journal:
    """The journal in ``directory`` where the tuning of the run at ``first`` can go on, else a new
    one.

    It cannot where a patch was taken back since, or the run recorded last is gone: what was
    measured on top of them says nothing of the training as it is now."""
    journal = read_or_none(directory / NAME, Journal, SCHEMA, "the journal of a tuning")
    new = Journal(str(first), str(first))
    if journal is None or journal.first != str(first):
        return new
    stand = {(patch.path, patch.fix, patch.title) for patch in applied_patches(patch_store(first))}
    written = ((row.path, row.fix, row.title) for row in journal.kept if row.path)
    goes_on = stand.issuperset(written) and is_run_directory(Path(journal.base))
    return journal if goes_on else new


def write_journal(directory: Path, journal: Journal) -> None:
    """Replace the journal in ``directory`` atomically."""
    directory.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    replace_file(directory / NAME, msgspec.json.encode(journal) + b"\n")


_EARLIER = "measured before "


def keep_proofs(
    journal: Journal, option: FixOption, progress: Progress, directory: Path, now_ns: int
) -> None:
    """Keep the proof of ``option`` so far: for the tuned run, in ``directory``, and for the run it
    was tried on, if that is another one. The first then says on top of what it was measured, and
    never replaces the proof of another change by the same fix, which that run is offered. Raises
    OSError if a proof cannot be written."""
    if not journal.kept:
        keep_proof(option, progress, directory, now_ns)
        return
    keep_proof(option, progress, trials_of(Path(journal.base)), now_ns)
    old = read_proof(directory, option.fix)
    if old is None or old.title == option.title:
        titles = ", ".join(attempt.title for attempt in journal.kept)
        noted = replace(progress, notes=(*progress.notes, f"measured on top of {titles}"))
        keep_proof(option, noted, directory, now_ns)


def carry_proofs(before: Journal, after: Journal, directory: Path) -> None:
    """Copy the proofs of fixes that were not kept to the run recorded last, from the one before it:
    it is still offered some of them. ``directory`` is that of the tuned run. Raises OSError if a
    proof cannot be written."""
    folder = directory if before.base == before.first else trials_of(Path(before.base))
    for attempt in after.left:
        proof = read_proof(folder, attempt.fix)
        if proof is not None and proof.title == attempt.title:
            notes = proof.notes
            if not any(note.startswith(_EARLIER) for note in notes):
                notes = (*notes, f"{_EARLIER}{after.kept[-1].title}")
            write_proof(replace(proof, notes=notes), trials_of(Path(after.base)))
