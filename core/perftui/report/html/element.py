"""Elements of HTML and SVG, and how they are written: every text in them is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perftui.report.output_text import printable

_VOID = ("meta", "br", "col")
_UNCLOSED = ("rect", "path")
"""Shapes of SVG, which may end in themselves where nothing is in them."""


@dataclass(frozen=True)
class Element:
    """An element with its attributes and what is in it."""

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[Node, ...] = ()


Node = Element | str
"""An element, or text that is shown as it is."""


def element(tag: str, *children: Node | None, **attributes: str | float | None) -> Element:
    """An element; children and attributes that are None are left out.

    An underscore at the end of an attribute's name is dropped (``class_``), others are hyphens.

    Raises:
        ValueError: the attribute could load something, lead away from the page or run a script.
    """
    found = tuple(
        (_attribute(name, value), number(value) if isinstance(value, (int, float)) else value)
        for name, value in attributes.items()
        if value is not None
    )
    return Element(tag, found, tuple(child for child in children if child is not None))


def section(heading: str, *content: Node | None, over: str = "") -> Element:
    """A section with its heading; ``over`` says behind that, what the content is a mean of."""
    behind = element("span", f" ({over})", class_="dim") if over else None
    return element("section", element("h2", heading, behind), *content)


def number(value: float) -> str:
    """A coordinate: two decimals at most, and none that are zeros."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def written(*nodes: Node) -> str:
    """The nodes as HTML."""
    return "".join(piece for node in nodes for piece in _pieces(node))


def cleaned(text: str) -> str:
    """The text without control codes, which are spelled as escapes; tabs stay, as source code is
    indented with them."""
    return "\t".join(map(printable, text.split("\t")))


def _attribute(name: str, value: str | float) -> str:
    told = name.rstrip("_").replace("_", "-")
    leads_away = told == "href" and not str(value).startswith("#")
    if leads_away or told.startswith("on") or told in ("src", "srcset", "action", "data"):
        raise ValueError(f"no report has the attribute {told}={value!r}")
    return told


def _pieces(node: Node) -> Iterator[str]:
    if isinstance(node, str):
        yield html.escape(cleaned(node), quote=False)
        return
    attributes = "".join(f' {name}="{_value(value)}"' for name, value in node.attributes)
    if not node.children and node.tag in (*_VOID, *_UNCLOSED):
        yield f"<{node.tag}{attributes}{'/' if node.tag in _UNCLOSED else ''}>"
        return
    yield f"<{node.tag}{attributes}>"
    yield from _style(node.children) if node.tag == "style" else _all(node.children)
    yield f"</{node.tag}>"


def _all(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        yield from _pieces(node)


def _style(nodes: Iterable[Node]) -> Iterator[str]:
    """A style sheet ends at the first end tag, and knows no entities."""
    for node in nodes:
        if not isinstance(node, str) or "</" in node:
            raise ValueError("a style sheet is text without tags")
        yield node


def _value(value: str) -> str:
    return html.escape(cleaned(value), quote=True)
