"""The trainings that `perftui demo` runs, each slow by one cause: data, in ``trainings.txt``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PREFIX = "perftui-demo-"
"""Of the directories for temporary files that demos run in."""


class Training(NamedTuple):
    """A script, and what makes it slow."""

    name: str
    about: str
    """One line, for a person."""
    script: str


def trainings() -> dict[str, Training]:
    """All of them by name; the first is the one that runs where none is named."""
    text = Path(__file__).with_name("trainings.txt").read_text()
    parts = re.split(r"^=== (\w+): (.+)\n", text, flags=re.MULTILINE)[1:]
    rows = (Training(*parts[at : at + 3]) for at in range(0, len(parts), 3))
    return {row.name: row for row in rows}
