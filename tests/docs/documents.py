"""What README.md and docs show: scripts, commands, and what the commands print."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
PLAYED = ROOT / "docs" / "commands.md"
"""Its commands are run on recorded runs, those of the others on trainings of a script."""

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`]+)`")
_BEHIND = re.compile(r" (?:2?>|\|\|?|&&) .*|; .*")
"""What a shell reads behind a command."""
_CODE = "; echo $?"


@dataclass(frozen=True)
class Command:
    """A command line of ours."""

    place: str
    """``FILE:LINE``."""
    words: tuple[str, ...]
    """Without ``perftui`` itself."""

    def __str__(self) -> str:
        return f"{self.place} perftui {' '.join(self.words)}"


@dataclass(frozen=True)
class Shown:
    """A command and what a document shows of its output."""

    command: Command
    output: str
    code: int | None
    """The exit code, where the document shows it."""


def commands(document: Path) -> Iterator[Command]:
    """Every command of ours, in fenced blocks and in code within the text."""
    text = document.read_text(encoding="utf-8")
    for found in FENCED.finditer(text):
        for match in re.finditer(r"^(?:\$ )?(perftui .*)$", found[2], re.MULTILINE):
            yield _command(document, text, found.start(2) + match.start(), match[1])
    # As long as before, so that places stay.
    plain = FENCED.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    for span in _SPAN.finditer(plain):
        written = " ".join(span[1].split()).removeprefix("srun ")
        if written.startswith("perftui "):
            yield _command(document, text, span.start(), written)


def sessions(document: Path) -> Iterator[Shown]:
    """Commands behind a ``$``, each with the lines below it."""
    text = document.read_text(encoding="utf-8")
    for found in FENCED.finditer(text):
        prompts = list(re.finditer(r"^\$ (perftui .*)\n((?:(?!\$ ).*\n)*)", found[2], re.MULTILINE))
        for match in prompts:
            command = _command(document, text, found.start(2) + match.start(), match[1])
            output, code = match[2], None
            if match[1].endswith(_CODE):
                *lines, last = output.splitlines()
                output, code = "".join(f"{line}\n" for line in lines), int(last)
            yield Shown(command, output, code)


def scripts() -> Iterator[tuple[str, str]]:
    """Name and text of each Python file that a document shows: its first line is ``# NAME``."""
    for document in DOCUMENTS:
        for found in FENCED.finditer(document.read_text(encoding="utf-8")):
            name = re.match(r"# (\w+\.py)\n", found[2])
            if found[1] == "python" and name:
                yield name[1], found[2]


def snippets(document: Path) -> list[str]:
    """Python in a document that is no file and no session, in order."""
    text = document.read_text(encoding="utf-8")
    found = (block[2] for block in FENCED.finditer(text) if block[1] == "python")
    return [code for code in found if not code.startswith(("# ", ">>> "))]


def _command(document: Path, text: str, at: int, written: str) -> Command:
    line = text.count("\n", 0, at) + 1
    words = shlex.split(_BEHIND.sub("", written).replace("[", "").replace("]", ""))
    return Command(f"{document.name}:{line}", tuple(words[1:]))
