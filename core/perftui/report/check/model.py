"""What a check of a run or trace holds: rows, limits, the verdict and the repository."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from perftui.diagnosis.model import Severity
from perftui.experiments.conditions import Difference
from perftui.experiments.history import History

STEP_TIME = "step time"
"""Name of the check of the step's duration."""


class State(str, enum.Enum):
    """The result of one check."""

    OK = "ok"
    FAILED = "failed"
    NOT_CERTAIN = "not certain"
    """Nothing proves that the limit is exceeded, and nothing that it is not."""
    NOT_JUDGED = "not judged"
    """There is too little to judge by."""


class Verdict(str, enum.Enum):
    """The result of all checks."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class CheckLimits:
    """The limits of a check."""

    fail_on: Severity | None = Severity.CRITICAL
    """The least severity of a finding that fails; None for no finding at all."""
    max_regression: float = 0.05
    """Share by which a step may be longer than in the baseline."""
    inconclusive_fails: bool = False
    """Whether a check that is not certain fails."""


@dataclass(frozen=True)
class Check:
    """One limit, and what was found."""

    name: str
    """The key of the finding, or what was measured; the same in every run."""
    found: str
    limit: str
    state: State
    message: str
    """A sentence for whoever reads only this; not yet safe to show."""
    title: str
    severity: Severity | None = None
    """Severity of a finding."""
    file: str | None = None
    """The finding's file, as the training named it."""
    line: int | None = None


@dataclass(frozen=True)
class Gate:
    """All checks of one run or trace."""

    path: Path
    against: Path | None
    """The baseline; None where there is none."""
    cwd: str | None
    """The directory that the training ran in; None where that is unknown."""
    checks: tuple[Check, ...]
    limits: CheckLimits
    differences: tuple[Difference, ...] = ()
    """What has changed since the baseline."""
    in_force: tuple[str, ...] = ()
    """Arguments of the training's loader and optimizer that have changed: ``num_workers 0 -> 2``.
    """
    ratio: float | None = None
    """Step of the baseline over the step; None where it is unknown."""
    history: History | None = None
    """The run among all earlier ones of its command; None where it was not held against them."""

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that fail; uncertain ones too, if that is asked for."""
        return tuple(check for check in self.checks if self.fails(check))

    @property
    def verdict(self) -> Verdict:
        """A failed check outweighs one that cannot be judged."""
        if self.failed:
            return Verdict.FAILED
        unknown = any(check.state is State.NOT_JUDGED for check in self.checks)
        return Verdict.NOT_JUDGED if unknown else Verdict.PASSED

    def fails(self, check: Check) -> bool:
        """Whether ``check`` makes the verdict ``FAILED``."""
        uncertain = check.state is State.NOT_CERTAIN and self.limits.inconclusive_fails
        return check.state is State.FAILED or uncertain


@dataclass(frozen=True)
class Repository:
    """The directory tree that annotations point into."""

    root: Path

    def inside(self, file: str | None, cwd: str | None) -> str | None:
        """``file`` relative to the root, with slashes; None where it is not in there.

        A training of another machine names its files by the directory ``cwd`` that it ran in
        there: they are found again where they are as deep or deeper below the root here.
        """
        if not file:
            return None
        path = Path(file)
        if not path.is_absolute():
            path = Path(cwd or self.root) / path
        try:
            root = self.root.resolve()
            here = path.resolve()
            if here.is_relative_to(root):
                return here.relative_to(root).as_posix()
            return self._moved(path, Path(cwd)) if cwd else None
        except (OSError, ValueError, RuntimeError):
            # A name from a trace may hold anything; what is no path here is in no repository.
            return None

    def shown(self, file: str | None, cwd: str | None) -> str | None:
        """The path by ``inside``, or ``file`` itself where it is not in the repository."""
        return self.inside(file, cwd) or file

    def _moved(self, path: Path, cwd: Path) -> str | None:
        """The longest end of ``path`` that is a file here, at least the part below ``cwd``."""
        if ".." in path.parts or not path.is_relative_to(cwd):
            return None
        fewest = len(path.relative_to(cwd).parts)
        for first in range(1, len(path.parts) - fewest + 1):
            end = Path(*path.parts[first:])
            if (self.root / end).is_file():
                return end.as_posix()
        return None


def repository_around(directory: Path, workspace: str | None) -> Repository:
    """The repository of ``workspace``, which a runner names, if ``directory`` is in there, else the
    one that ``directory`` lies in, else that directory."""
    here = directory.resolve()
    if workspace and here.is_relative_to(Path(workspace).resolve()):
        return Repository(Path(workspace).resolve())
    root = next((above for above in (here, *here.parents) if (above / ".git").exists()), here)
    return Repository(root)
