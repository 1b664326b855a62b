"""What a fix is: a change for one run, a patch of the source, or advice."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perftui.run.manifest import Override

WRITTEN = "written already, so run it again"
"""Why a fix that stands in the source can be neither tried nor written."""


class Risk(str, enum.Enum):
    """What a fix may change besides speed."""

    MEMORY = "uses more memory"
    RANDOMNESS = "changes random augmentation"
    ORDER = "changes the shuffle of later epochs"
    NUMERICS = "may change the last digits of results"
    REPEATABLE = "results differ from run to run"
    PRECISION = "computes in float32 instead of float64"
    HALF = "computes with 16 bits: check the loss of a longer run"
    UNUSED = "raises an error if a parameter gets no gradient"
    SHARED = "tensors can no longer be shared with other processes"
    START = "takes longer to start"
    SELDOM = "writes, prints or evaluates less"
    PACE = "continues without the pause"
    PROFILE = "the script's profiler records a few steps only"
    NORMS = "gradient norms over all parameters change"
    DROPOUT = "dropout drops different values"
    DRAWS = "draws different random numbers, including initial weights"
    UNCHECKED = "a gradient that becomes NaN no longer raises an error"
    EDIT = "results may differ: the edit is your own"
    CORES = "may slow the step: too few cores are idle"

    @property
    def is_numeric(self) -> bool:
        """Whether the same samples in the same order may give other numbers."""
        return self in MAY_ROUND or self in (Risk.NORMS, Risk.DROPOUT, Risk.EDIT)


MAY_ROUND = frozenset({Risk.NUMERICS, Risk.REPEATABLE, Risk.PRECISION, Risk.HALF})


@dataclass(frozen=True)
class Patch:
    """A change of one source file, as whole contents before and after."""

    path: Path
    before: bytes
    after: bytes
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``target`` once the patch is in the source."""
    target: str | None = None
    """Public qualified name of what is called, such as ``torch.utils.data.DataLoader``."""
    line: int | None = None
    """Line of ``path`` at which that call begins once the patch is in the source."""
    notes: tuple[str, ...] = ()
    """Sentences for a person: what else changes with it, and what it leaves to be done."""
    changes_beside: bool = False
    """Whether other calls change with it, which no override of ``target`` reaches."""
    becomes: str = "fixed"
    """The state of the file afterwards, in a word for the head of the diff."""

    def diff(self, now: str = "now") -> str:
        """Unified diff, for a person, whose head calls the old side ``now``; undecodable bytes are
        shown escaped."""
        old, new = (
            side.decode("utf-8", "backslashreplace").split("\n")
            for side in (self.before, self.after)
        )
        name = self.path.name
        return "\n".join(
            difflib.unified_diff(
                old, new, f"{name} ({now})", f"{name} ({self.becomes})", lineterm=""
            )
        )


@dataclass(frozen=True)
class FixOption:
    """One fix as it can be offered for this run.

    ``override`` is None where it cannot be tried at run time, ``patch`` where it cannot be written;
    ``why_not`` is then the reason, and ``advice`` shows the line to change. ``argv`` is the whole
    command to run instead, where the script itself has an option for the change. A patch is tried
    by running its text in place of the file, where ``script_word`` says which word of the command
    names the script. One that ``is_written`` stands in the source since the run: it can be neither
    tried nor written again.
    """

    fix: str
    title: str
    """What will change, in a few words: ``num_workers 0 -> 2``."""
    explanation: str
    risks: tuple[Risk, ...] = ()
    override: Override | None = None
    patch: Patch | None = None
    why_not: str = ""
    advice: str = ""
    file: str | None = None
    line: int | None = None
    argv: tuple[str, ...] | None = None
    script_word: int | None = None
    is_written: bool = False
    before: tuple[Override, ...] = ()
    after: tuple[Override, ...] = ()
    """What the runs without and with a person's own edit have in place of the source as it is
    now."""

    @property
    def changes_numerics(self) -> bool:
        """Whether the same samples in the same order may give other numbers."""
        return any(risk.is_numeric for risk in self.risks)

    @property
    def is_reversible(self) -> bool:
        """Whether nothing of it stays: a trial leaves the source alone, a patch is taken back."""
        return self.is_written or self.is_triable or self.patch is not None

    @property
    def is_triable(self) -> bool:
        """Whether a run can be made with the fix while the source stays as it is."""
        if self.is_written:
            return False
        is_text = self.patch is not None and self.script_word is not None
        return self.override is not None or is_text or bool(self.after)

    @property
    def why_not_tried(self) -> str:
        """Why it cannot be tried, for a person."""
        if self.is_written:
            return WRITTEN
        if self.patch is not None:
            return "the command does not name the script by its path: the fix can only be written"
        return self.why_not or "it can only be made by hand"

    @property
    def is_possible(self) -> bool:
        """Whether the fix can be done here: tried, written, or by hand by ``advice``."""
        return self.override is not None or self.patch is not None or bool(self.advice)
