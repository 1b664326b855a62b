"""What the trial of a fix came to, kept beside its runs for whoever opens the run again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from perftui.experiments.verdict import Outcome, is_decided
from perftui.fixes.model import FixOption
from perftui.run.files import UnreadableError, decode_versioned, read_regular, replace_file
from perftui.run.layout import PRIVATE_MODE

if TYPE_CHECKING:
    from perftui.experiments.progress import Progress

SCHEMA = 1

SUFFIX = ".proof.json"

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
    schema: int = SCHEMA

    def is_of(self, option: FixOption) -> bool:
        """Whether that very change was tried."""
        return self.fix == option.fix and self.title == option.title

    @property
    def is_faster(self) -> bool:
        """Whether the fix is proven to gain."""
        return self.outcome is Outcome.FASTER

    @property
    def is_decided(self) -> bool:
        """Whether the trial came to an end, and not only to where it was stopped."""
        return self.outcome is not Outcome.INCONCLUSIVE


def proof_of(option: FixOption, progress: Progress, now_ns: int) -> Proof | None:
    """What the pairs so far prove of ``option``; None where they say nothing yet."""
    verdict = progress.verdict
    found = verdict.estimate
    if found is None and not is_decided(verdict):
        return None
    return Proof(
        option.fix,
        option.title,
        verdict.outcome,
        verdict.headline,
        tuple(ProvenPair(one.before.step_ns, one.after.step_ns) for one in progress.pairs),
        now_ns,
        found.ratio if found else None,
        found.low if found else None,
        found.high if found else None,
        progress.notes,
    )


def keep_proof(option: FixOption, progress: Progress, directory: Path, now_ns: int) -> Proof | None:
    """Write what the pairs so far prove to ``directory``, and return what stands there of the fix.

    An undecided one never takes the place of one of the same change that rests on more pairs.

    Raises:
        OSError: the directory cannot be written.
    """
    old, new = read_proof(directory, option.fix), proof_of(option, progress, now_ns)
    if new is None or (old is not None and _outweighs(old, new)):
        return old
    write_proof(new, directory)
    return new


def write_proof(proof: Proof, directory: Path) -> None:
    """Replace what is kept of the fix in ``directory``.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    replace_file(_path(directory, proof.fix), msgspec.json.encode(proof))


def read_proof(directory: Path, fix: str) -> Proof | None:
    """What is kept of ``fix``; None where nothing is, or nothing that can be read."""
    path = _path(directory, fix)
    try:
        if path.stat().st_size > LARGEST:
            return None
        found = decode_versioned(read_regular(path), Proof, SCHEMA, "the result of a trial")
    except (OSError, UnreadableError):
        return None
    return found if found.fix == fix else None


def _outweighs(old: Proof, new: Proof) -> bool:
    is_same = old.title == new.title
    return is_same and not new.is_decided and len(old.pairs) > len(new.pairs)


def _path(directory: Path, fix: str) -> Path:
    return directory / f"{_UNSAFE.sub('_', fix)}{SUFFIX}"
