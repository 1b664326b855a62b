"""Links of a document, and the anchors that others can name, as GitHub makes them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
"""What GitHub's Markdown has in common with the documents."""

_DROPPED = re.compile(r"[^\w\- ]")


def tokens(document: Path) -> list[Token]:
    """A document as Markdown is read where the repository is browsed."""
    return MARKDOWN.parse(document.read_text(encoding="utf-8"))


def links(document: Path) -> Iterator[str]:
    """Where links and pictures lead, but for other hosts."""
    for token in _inline(tokens(document)):
        target = token.attrs.get({"link_open": "href", "image": "src"}.get(token.type, ""))
        if isinstance(target, str) and "://" not in target:
            yield target


def anchors(document: Path) -> list[str]:
    """The anchor of each heading, in order."""
    found: list[str] = []
    read = tokens(document)
    for opening, text in pairwise(read):
        if opening.type == "heading_open":
            found.append(slug("".join(one.content for one in _inline([text]))))
    return found


def slug(heading: str) -> str:
    """The anchor of a heading by its text without marks."""
    return _DROPPED.sub("", heading.strip().lower()).replace(" ", "-")


def _inline(read: list[Token]) -> Iterator[Token]:
    for token in read:
        yield from token.children or ()
