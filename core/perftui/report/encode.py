"""JSON of all commands: how it is written, and what is cut to fit a context window."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from perftui.report.output_text import cut, encodable, map_texts
from perftui.trace.text import encodable as encodable_name
from perftui.trace.text import printable

SCHEMA = 1


def encode_object(plain: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """Plain values in the same form, or without any layout."""
    # Names of files can hold half of a surrogate pair. Names of fields are ours, also where
    # somebody is called like one.
    text = msgspec.json.encode(map_texts(plain, encodable, encodable_name)).decode()
    if not on_one_line:
        text = msgspec.json.format(text, indent=2)
    # Of these, only the line ends of the layout stand outside strings.
    unsafe = {char for char in set(text) - {"\n"} if printable(char) != char}
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in unsafe}) + "\n"


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


Ns = Annotated[int, Meta(description="Nanoseconds.")]
Share = Annotated[float, Meta(description="A share, 0 to 1.")]
Command = Annotated[
    list[str] | None,
    Meta(description="The exact command to run next, one word per item; null if there is none."),
]
Ratio = Annotated[
    float | None,
    Meta(description="Step time before divided by after: above 1 is faster; null if not known."),
]
Redacted = Annotated[
    list[str] | None,
    Meta(description="What was replaced for --redact; null if nothing was."),
]
Schema = Annotated[
    int, Meta(description="Increases when a field is removed or changes its meaning.")
]

Notes = Annotated[
    list[str], Meta(description="Reasons not to rely on the result, and what was not checked.")
]
InForce = Annotated[list[str], Meta(description="Changed arguments in force: num_workers 0 -> 2.")]
Low = Annotated[
    float | None,
    Meta(description="Lower end of the interval of the ratio; null with fewer than 6 pairs."),
]
High = Annotated[float | None, Meta(description="Upper end of the interval of the ratio.")]
