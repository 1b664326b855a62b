"""A page as a browser reads it: elements with their attributes and texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = ("meta", "br", "col")


@dataclass
class Node:
    """One element."""

    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(one if isinstance(one, str) else one.text for one in self.children)

    @property
    def kinds(self) -> list[str]:
        """Its classes."""
        return self.attributes.get("class", "").split()

    def every(self, tag: str = "", kind: str = "") -> Iterator[Node]:
        """The elements within, those of a tag or a class."""
        for one in self.children:
            if isinstance(one, Node):
                if (not tag or one.tag == tag) and (not kind or kind in one.kinds):
                    yield one
                yield from one.every(tag, kind)

    def only(self, tag: str = "", kind: str = "") -> Node:
        """The one element of that tag or class."""
        (found,) = self.every(tag, kind)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        # Ends of lines between elements are those of the template.
        if data.strip() or "\n" not in data:
            self.open[-1].children.append(data)


def read(text: str) -> Node:
    """The page; fails where an element is not closed or closes another."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    (root,) = reader.open
    return root


def section(page: Node, heading: str) -> Node:
    """The section below a heading that begins so."""
    found = (one for one in page.every("section") if next(one.every("h2")).text.startswith(heading))
    return next(found)


def cells(table: Node) -> list[list[str]]:
    """The texts of a table's body, without what is drawn in it."""
    rows = next(table.every("tbody")).every("tr")
    return [[_beside_drawings(cell) for cell in row.every("td")] for row in rows]


def _beside_drawings(node: Node) -> str:
    """The text, without that of bars."""
    if "strip" in node.kinds:
        return ""
    return "".join(one if isinstance(one, str) else _beside_drawings(one) for one in node.children)
