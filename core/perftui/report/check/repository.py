"""Paths of source files as they are named inside the repository that is checked out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
        """The same, or ``file`` itself where it is not in the repository."""
        return self.inside(file, cwd) or file

    def _moved(self, path: Path, cwd: Path) -> str | None:
        """The longest end of ``path`` that is a file here, at least all that is below ``cwd``."""
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
    root = next((one for one in (here, *here.parents) if (one / ".git").exists()), here)
    return Repository(root)
