"""Text as Markdown of GitHub and GitLab shows it: nothing of a name becomes markup, or a mention of
somebody."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from perftui.report.shown import printable

_MARKS = re.compile(
    r"[\\`*\[\]~$]"  # code, emphasis, links, formulas
    r"|(?<![^\W_])_|_(?![^\W_])"  # within a word it is no emphasis
    r"|^[-+=]|(?<=^\d)[.)](?= |$)|(?<=^\d\d)[.)](?= |$)"  # lists and headings
)

_ENTITIES = {"&": "&amp;", "<": "&lt;", "@": "&#64;", "#": "&#35;"}
"""``@name`` would call a person, ``#12`` name an issue, also behind a backslash."""

_TICKS = re.compile("`+")


def plain(text: str) -> str:
    """``text`` as it is read, on one line."""
    marked = _MARKS.sub(_escaped, printable(text))
    safe = re.sub("[&<@#]", lambda found: _ENTITIES[found[0]], marked)
    return re.sub("^>", "&gt;", safe)


def code(text: str) -> str:
    """``text`` as code."""
    shown = printable(text)
    ticks = "`" * (_longest_ticks(shown) + 1)
    is_edged = shown.startswith(("`", " ")) or shown.endswith(("`", " "))
    pad = " " if not shown or (is_edged and shown.strip()) else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def fenced(text: str, language: str) -> Iterator[str]:
    """Lines of ``text`` as a block of code in ``language``."""
    lines = text.split("\n")
    fence = "`" * max(3, 1 + max(map(_longest_ticks, lines)))
    yield f"{fence}{language}"
    # Tabs of a source stay; other control characters are spelled out.
    yield from ("\t".join(map(printable, line.split("\t"))) for line in lines)
    yield fence


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> Iterator[str]:
    """A table of cells that are Markdown already; columns ``numbers`` stand at the right. Nothing
    without rows."""
    if not rows:
        return
    yield _row(heads)
    yield _row(["--:" if at in numbers else "---" for at in range(len(heads))])
    yield from map(_row, rows)


def folded(title: str, lines: Iterable[str]) -> Iterator[str]:
    """``lines`` that are opened by a click on ``title``; nothing without lines."""
    found = list(lines)
    if found:
        # Markdown within a block of HTML begins and ends at an empty line.
        yield from (f"<details><summary>{plain(title)}</summary>", "", *found, "", "</details>")


def _row(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def _longest_ticks(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)
