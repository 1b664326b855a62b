"""Text and JSON of a size that a context window has room for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from perftui.report.as_json import encode_object
from perftui.report.output_text import cut

T = TypeVar("T")

MOST_BYTES = 2_000

LETTERS = 240
"""Of a sentence; few are longer."""


def fitting_lines(lines: Iterable[str]) -> str:
    """As many whole lines as there is room for, from the first on."""
    kept, left = [], MOST_BYTES
    for line in lines:
        left -= len(f"{line}\n".encode("utf-8", "backslashreplace"))
        if left < 0:
            break
        kept.append(f"{line}\n")
    return "".join(kept)


def fits(plain: Mapping[str, Any], share: float = 1.0) -> bool:
    """Whether there is room for these values as JSON on one line, or in a share of the room."""
    return len(encode_object(plain, on_one_line=True).encode()) <= share * MOST_BYTES


def whole(value: T) -> T | None:
    """A path or a command, which is of use whole only: None where it leaves no room for more."""
    return value if fits({"": value}, share=0.2) else None


def cut_lists(plain: dict[str, Any], *names: str) -> None:
    """Shorten the texts in these lists of ``plain``, then leave out last ones, until it fits."""
    for name in names:
        plain[name] = [cut(text, LETTERS) for text in plain[name]]
    for name in names:
        while plain[name] and not fits(plain):
            plain[name].pop()
