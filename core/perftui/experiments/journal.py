"""What a tuning has done so far, kept in files so that it can go on after any end."""

from __future__ import annotations

import enum
import operator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path

import msgspec

from perftui.experiments.progress import Progress
from perftui.experiments.proof import keep_proof, read_proof, write_proof
from perftui.fixes.apply import patch_store, recorded
from perftui.fixes.model import FixOption, Risk
from perftui.run.files import DAMAGE, read_regular, replace_file
from perftui.run.layout import is_run_directory, trials_of

SCHEMA = 1

NAME = "tune.json"
"""The journal's file, beside the runs of its trials."""


class Kept(str, enum.Enum):
    """How a proven fix is kept."""

    NO = "no"
    WRITTEN = "written"
    """In the source."""
    OVERRIDE = "override"
    """In each run that tuning makes: it could not be written."""


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
    """By file that was written, a copy of what it was before the first patch."""
    is_recorded: bool = True
    """Whether ``base`` has the fix that was kept last: it ended before that run was made."""
    schema: int = SCHEMA

    @property
    def kept(self) -> tuple[Attempt, ...]:
        """The attempts whose fix stays."""
        return tuple(one for one in self.attempts if one.kept is not Kept.NO)

    @property
    def ladder(self) -> tuple[tuple[float, Attempt], ...]:
        """What was kept, each with how many times as fast all of it is up to there: the product of
        the single gains, an estimate until all of it is measured together."""
        ratios = accumulate((one.ratio or 1.0 for one in self.kept), operator.mul)
        return tuple(zip(ratios, self.kept, strict=True))

    @property
    def left(self) -> tuple[Attempt, ...]:
        """The attempts whose fix was not kept."""
        return tuple(one for one in self.attempts if one.kept is Kept.NO)

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the files that were written, in order of the alphabet."""
        return tuple(sorted({Path(one.path).name for one in self.kept if one.path}))

    def has_tried(self, fix: str, title: str) -> bool:
        """Whether that change was tried already, with more of it or less."""
        return any((one.fix, one.title) == (fix, title) for one in self.attempts)

    def after(self, attempt: Attempt) -> Journal:
        """The journal with ``attempt`` at its end."""
        return replace(self, attempts=(*self.attempts, attempt))


def attempt_of(option: FixOption, progress: Progress) -> Attempt:
    """The attempt at ``option`` that ended as ``progress``, not kept so far."""
    found = progress.verdict.estimate
    return Attempt(
        option.fix,
        option.title,
        progress.verdict.outcome.value,
        progress.verdict.headline,
        found.ratio if found else None,
        found.low if found else None,
        found.high if found else None,
        len(progress.pairs),
        risks=option.risks,
    )


def journal_of(first: Path, directory: Path) -> Journal:
    """The journal in ``directory`` where the tuning of the run at ``first`` can go on, else a new
    one.

    It cannot where a patch was taken back since, or the run recorded last is gone: what was
    measured on top of them says nothing of the training as it is now."""
    journal = read_journal(directory / NAME)
    new = Journal(str(first), str(first))
    if journal is None or journal.first != str(first):
        return new
    stand = {(one.path, one.fix, one.title) for one in recorded(patch_store(first))}
    written = ((one.path, one.fix, one.title) for one in journal.kept if one.path)
    goes_on = stand.issuperset(written) and is_run_directory(Path(journal.base))
    return journal if goes_on else new


def read_journal(path: Path) -> Journal | None:
    """The journal at ``path``; None where there is none that this version can read."""
    try:
        journal = msgspec.json.decode(read_regular(path), type=Journal)
    except (OSError, *DAMAGE):
        return None
    return journal if journal.schema <= SCHEMA else None


def write_journal(path: Path, journal: Journal) -> None:
    """Replace the journal at ``path`` atomically."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, msgspec.json.encode(journal) + b"\n")


_EARLIER = "measured before "


def keep_proofs(
    journal: Journal, option: FixOption, progress: Progress, directory: Path, now_ns: int
) -> None:
    """Keep what the pairs so far prove of ``option``: of the run that is tuned, in ``directory``,
    and of the run that it was tried on, where that is another one. The former then says on top of
    what, and never takes the place of another change by the same fix, which that run is offered.

    Raises:
        OSError: a proof cannot be written.
    """
    if not journal.kept:
        keep_proof(option, progress, directory, now_ns)
        return
    keep_proof(option, progress, trials_of(Path(journal.base)), now_ns)
    old = read_proof(directory, option.fix)
    if old is None or old.title == option.title:
        kept = ", ".join(one.title for one in journal.kept)
        noted = replace(progress, notes=(*progress.notes, f"measured on top of {kept}"))
        keep_proof(option, noted, directory, now_ns)


def carry_proofs(before: Journal, after: Journal, directory: Path) -> None:
    """Note beside the run recorded last what is known, from the one before it, of the fixes that
    were not kept: it is still offered some of them. ``directory`` is that of the run that is tuned.

    Raises:
        OSError: a proof cannot be written.
    """
    known = directory if before.base == before.first else trials_of(Path(before.base))
    for attempt in after.left:
        proof = read_proof(known, attempt.fix)
        if proof is not None and proof.title == attempt.title:
            notes = proof.notes
            if not any(note.startswith(_EARLIER) for note in notes):
                notes = (*notes, f"{_EARLIER}{after.kept[-1].title}")
            write_proof(replace(proof, notes=notes), trials_of(Path(after.base)))
