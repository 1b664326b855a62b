"""How reports show texts of runs and traces, and the JSON of all commands.

Every form of a report passes each text of a run or a trace through here before it is cut, joined or
escaped, so that a redacted report needs no form of its own."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, TypeVar, cast

import msgspec
from msgspec import Meta

from perftui.trace import text as trace_text

_replace: ContextVar[Callable[[str], str] | None] = ContextVar("replace", default=None)


@contextmanager
def replacing_texts(replace: Callable[[str], str]) -> Iterator[None]:
    """Within the block, reports show ``replace(text)`` in place of each text."""
    token = _replace.set(replace)
    try:
        yield
    finally:
        _replace.reset(token)


def replaced(text: str) -> str:
    """The text, or what a redacted report has in its place."""
    replace = _replace.get()
    return text if replace is None else replace(text)


def printable(text: str) -> str:
    """The text, redacted and safe for a terminal."""
    return trace_text.printable(replaced(text))


def encodable(text: str) -> str:
    """The text, redacted and fit for JSON."""
    return trace_text.encodable(replaced(text))


def map_texts(value: Any, text: Callable[[str], str], name: Callable[[str], str] = str) -> Any:
    """Plain values with ``text`` applied to each string and ``name`` to each field name."""
    if isinstance(value, dict):
        return {name(str(field)): map_texts(item, text, name) for field, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [map_texts(item, text, name) for item in value]
    return text(value) if isinstance(value, str) else value


WIDTH = 79


def joined(blocks: Iterable[Iterable[str]]) -> str:
    """The blocks that have lines, an empty line between them."""
    shown = (list(map(replaced, block)) for block in blocks)
    return "\n\n".join("\n".join(block) for block in shown if block) + "\n"


def listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    """``title`` and indented lines made safe to show; nothing without lines."""
    body = list(lines)
    if body:
        yield title
    for line in body:
        yield f"  {printable(line)}"


def wrapped(text: str, indent: str = "", first: str | None = None) -> list[str]:
    """A paragraph as lines that fit 80 columns, behind ``first`` where that is another indent;
    names with hyphens stay whole, what is longer than a line is broken."""
    before = indent if first is None else first
    return textwrap.wrap(
        text, WIDTH, initial_indent=before, subsequent_indent=indent, break_on_hyphens=False
    )


def cut(text: str, width: int) -> str:
    """The text made safe to show, in at most ``width`` characters."""
    shown = printable(text)
    return shown if len(shown) <= width else f"{shown[: width - 3]}..."


SCHEMA = 1


def encode_object(plain: Mapping[str, Any], *, on_one_line: bool = False) -> str:
    """Plain values as indented JSON, or on one line."""
    # File names can hold half of a surrogate pair. Field names are never redacted, even if a person
    # is called like one.
    text = msgspec.json.encode(map_texts(plain, encodable, trace_text.encodable)).decode()
    if not on_one_line:
        text = msgspec.json.format(text, indent=2)
    # Of control characters, only line ends of the layout stand outside strings.
    unsafe = {char for char in set(text) - {"\n"} if trace_text.printable(char) != char}
    return text.translate({ord(char): json.dumps(char)[1:-1] for char in unsafe}) + "\n"


T = TypeVar("T")


def said(text: str) -> Meta:
    """What the schema of an output says of a field."""
    return Meta(description=text)


def filled(kind: type[T], /, *sources: object, **given: Any) -> T:
    """The values of an output: what is not ``given`` is what the first of ``sources`` that has an
    attribute of the field's name has there, as plain values. Where one of ``sources`` is None, what
    no other has is null."""

    def plain(name: str) -> Any:
        found = [getattr(source, name) for source in sources if hasattr(source, name)]
        value = found[0] if found or None not in sources else None
        return msgspec.to_builtins(value, enc_hook=str)

    names = kind.__annotations__
    return cast(T, {name: given[name] if name in given else plain(name) for name in names})


MOST_BYTES = 2_000

LETTERS = 240
"""Most letters of a sentence; few are longer."""


def fitting_lines(lines: Iterable[str]) -> str:
    """As many whole lines as there is room for, from the first on."""
    fitting, left = [], MOST_BYTES
    for line in lines:
        left -= len(f"{line}\n".encode("utf-8", "backslashreplace"))
        if left < 0:
            break
        fitting.append(f"{line}\n")
    return "".join(fitting)


def fits(plain: Mapping[str, Any], share: float = 1.0) -> bool:
    """Whether there is room for these values as JSON on one line, or in a share of the room."""
    return len(encode_object(plain, on_one_line=True).encode()) <= share * MOST_BYTES


def whole(value: T) -> T | None:
    """A path or command; None if it takes more than a fifth of the room: cut, it is useless."""
    return value if fits({"": value}, share=0.2) else None


def cut_lists(plain: dict[str, Any], *names: str) -> None:
    """Shorten the texts in these lists of ``plain``, then leave out last ones, until it fits."""
    for name in names:
        plain[name] = [cut(text, LETTERS) for text in plain[name]]
    for name in names:
        while plain[name] and not fits(plain):
            plain[name].pop()


Ns = Annotated[int, said("Nanoseconds.")]
Share = Annotated[float, said("A share, 0 to 1.")]
Command = Annotated[
    list[str] | None,
    said("The exact command to run next, one word per item; null if there is none."),
]
Ratio = Annotated[
    float | None, said("Step time before divided by after: above 1 is faster; null if not known.")
]
Redacted = Annotated[list[str] | None, said("What was replaced for --redact; null if nothing was.")]
Schema = Annotated[int, said("Increases when a field is removed or changes its meaning.")]

Notes = Annotated[list[str], said("Reasons not to rely on the result, and what was not checked.")]
InForce = Annotated[list[str], said("Changed arguments in force: num_workers 0 -> 2.")]
Low = Annotated[
    float | None, said("Lower end of the interval of the ratio; null with fewer than 6 pairs.")
]
High = Annotated[float | None, said("Upper end of the interval of the ratio.")]
