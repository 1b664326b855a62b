"""Guides in docs/adding: files to make, changes of files, and commands, in order.

A line above a block names its file: ``New file `PATH`:`` or ``In `PATH`:``, the latter above a
``diff``. A line ``@@`` in a diff begins the next place of the file. Commands stand behind a ``$``.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.documents import FENCED, ROOT

GUIDES = tuple(
    path for path in sorted((ROOT / "docs" / "adding").glob("*.md")) if path.stem != "index"
)

_NAMED = re.compile(r"(New file|In) `([^`]+)`:$")
_COPIED = ("core", "tui", "tests", "docs")
_UNFINISHED = "*.pyc.*"
"""What other tests are compiling: these files vanish at once."""
_LARGE = ("runs", "__snapshots__", "trainings")
"""Directories of tests that no guide needs."""


class StaleError(AssertionError):
    """The guide does not fit the project any more; the message says where."""


@dataclass(frozen=True)
class NewFile:
    """A file to make."""

    path: str
    text: str

    def apply(self, project: Path) -> None:
        path = project / self.path
        if path.exists():
            raise StaleError(f"{self.path} is there already")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")


@dataclass(frozen=True)
class Change:
    """Lines to put into a file or to take out of it, each among lines that stay."""

    path: str
    places: tuple[str, ...]

    def apply(self, project: Path) -> None:
        path = project / self.path
        lines = path.read_text(encoding="utf-8").splitlines()
        for place in self.places:
            written = [line or " " for line in place.splitlines()]
            old, new = (
                [line[1:] for line in written if line[0] in marks] for marks in (" -", " +")
            )
            ends = range(len(old), len(lines) + 1)
            found = [end for end in ends if lines[end - len(old) : end] == old]
            if len(found) != 1:
                raise StaleError(f"{self.path} does not have these lines once:\n{place}")
            lines[found[0] - len(old) : found[0]] = new
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """A command, and what is shown below it."""

    command: str
    shown: str


def steps(guide: Path) -> Iterator[NewFile | Change | Run]:
    """What the guide says to do, in order."""
    text = guide.read_text(encoding="utf-8")
    for block in FENCED.finditer(text):
        language, body = block.groups()
        above = text[: block.start()].rstrip().rpartition("\n")[2]
        named = _NAMED.search(above)
        if named and language == "diff":
            yield Change(named[2], tuple(re.split(r"^@@\n", body, flags=re.MULTILINE)))
        elif named:
            yield NewFile(named[2], body)
        elif language in ("python", "diff"):
            raise StaleError(f"{guide.name} does not name the file of\n{body}")
        else:
            found = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE)
            yield from (Run(command, shown) for command, shown in found)


def copy_of_the_project(place: Path) -> Path:
    """A copy that guides may change."""
    for name in _COPIED:
        left_out = _LARGE if name == "tests" else ()
        ignored = shutil.ignore_patterns(_UNFINISHED, *left_out)
        shutil.copytree(ROOT / name, place / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy2(ROOT / name, place)
    return place


def printed(run: Run, project: Path) -> str:
    """What a command of the virtual environment prints in ``project``."""
    program, *words = shlex.split(run.command)
    if program == ".venv/bin/perftui":
        words = ["-m", "perftui_tui", *words]
    elif program != ".venv/bin/python":
        raise StaleError(f"{run.command} is no command of the virtual environment")
    roots = os.pathsep.join(str(project / name) for name in ("core", "tui"))
    done = subprocess.run(
        [sys.executable, *words],
        cwd=project,
        # What the first command compiles the next ones need not.
        env={**os.environ, "PYTHONPATH": roots, "PYTHONDONTWRITEBYTECODE": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout
