"""Prints the section of CHANGELOG.md about a version: ``python .ci/release_notes.py v1.2.0``.

Fails unless the tag, the version of the package and the newest section of the changelog agree.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "core/perftui/__init__.py"
CHANGELOG = "CHANGELOG.md"

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_DATED = re.compile(r"(\S+) - \d{4}-\d{2}-\d{2}")


class DisagreeError(Exception):
    """What is tagged is not what is in the tree; the message says where."""


def version(root: Path = ROOT) -> str:
    """Version of the package, as the build reads it."""
    (found,) = re.findall(r'^__version__ = "(.+)"$', (root / PACKAGE).read_text(), re.MULTILINE)
    return str(found)


def sections(root: Path = ROOT) -> list[tuple[str, str]]:
    """Heading and text of each section of the changelog, the newest first."""
    _, *parts = _SECTION.split((root / CHANGELOG).read_text(encoding="utf-8"))
    return list(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))


def notes(tag: str, root: Path = ROOT) -> str:
    """What the changelog says of ``tag``.

    Raises:
        DisagreeError: it is not the tag of this version, or the newest section is another one's.
    """
    ours = version(root)
    if tag != f"v{ours}":
        raise DisagreeError(f"the tag is {tag}, but {PACKAGE} says {ours}")
    heading, text = sections(root)[0]
    dated = _DATED.fullmatch(heading)
    if dated is None or dated[1] != ours:
        raise DisagreeError(f"{CHANGELOG} begins with '{heading}', not with '{ours} - YYYY-MM-DD'")
    if not text:
        raise DisagreeError(f"{CHANGELOG} says nothing about {ours}")
    return text


def main() -> int:
    """Print the notes, or on standard error why there are none."""
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} TAG", file=sys.stderr)
        return 2
    try:
        print(notes(sys.argv[1]))
    except DisagreeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
