"""Writes planned edits into a source file, touching no other byte.

LibCST takes longer to import than the app's first picture to make, so this is imported late.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Mapping, Sequence
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from perftui.fixes.source.call_layout import with_keyword, without_keyword
from perftui.fixes.source.edits import (
    AddKeyword,
    Edit,
    InsertLine,
    RemoveKeyword,
    RemoveStatement,
    ReplaceExpression,
    ReplaceLiteral,
    ReplaceStatement,
    WrapBlock,
    from_the_end,
)
from perftui.fixes.source.program import PatchRefusedError, Span


def edited(source: bytes, edits: Sequence[Edit]) -> bytes:
    """``source`` with ``edits`` made, in its own encoding and line ends.

    Raises:
        PatchRefusedError: LibCST cannot give the file back byte for byte, or a comment would be
            lost.
    """
    try:
        module = cst.parse_module(source)
    except (cst.ParserSyntaxError, UnicodeDecodeError, LookupError) as error:
        raise PatchRefusedError(f"the file does not parse: {error}") from error
    if module.bytes != source:
        raise PatchRefusedError("the file cannot be written back byte for byte")
    try:
        return MetadataWrapper(module).visit(_Editor(edits, _comments(source))).bytes
    except UnicodeEncodeError as error:
        raise PatchRefusedError(
            f"the file's encoding, {error.encoding}, has no such text"
        ) from error


def _comments(source: bytes) -> Mapping[int, int]:
    """The column at which a comment begins, by its line."""
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return {token.start[0]: token.start[1] for token in tokens if token.type == tokenize.COMMENT}


class _Editor(cst.CSTTransformer):
    """Makes each edit at the node that stands at its place."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, edits: Sequence[Edit], comments: Mapping[int, int]) -> None:
        super().__init__()
        self._comments = comments
        self._edits = from_the_end(edits)

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:  # LibCST's types are dynamic
        """``updated_node`` with the edits made in it."""
        if isinstance(original_node, (cst.Module, cst.IndentedBlock)):
            return self._block(original_node, updated_node)
        if isinstance(original_node, cst.BaseExpression):
            span = self._span(original_node)
            for edit in self._edits:
                if edit.at == span:
                    commented = self._comments.get(span[2], -1) >= span[3]
                    updated_node = _expression(edit, updated_node, commented)
        return updated_node

    def _block(
        self, original: cst.Module | cst.IndentedBlock, updated: cst.Module | cst.IndentedBlock
    ) -> cst.Module | cst.IndentedBlock:
        starts = [self._span(statement)[:2] for statement in original.body]
        body: list[Any] = list(updated.body)
        for edit in self._edits:
            if isinstance(edit, InsertLine) and edit.at[:2] in starts:
                _insert(body, starts.index(edit.at[:2]), edit)
            elif isinstance(edit, WrapBlock) and edit.at[:2] in starts and edit.last[:2] in starts:
                first, last = starts.index(edit.at[:2]), starts.index(edit.last[:2]) + 1
                indent = original.indent if isinstance(original, cst.IndentedBlock) else None
                body[first:last] = [_wrapped(body[first:last], edit.header, indent)]
            elif isinstance(edit, ReplaceStatement) and edit.at[:2] in starts:
                at = starts.index(edit.at[:2])
                body[at : at + 1] = _in_place_of(body[at], edit.text)
            elif isinstance(edit, RemoveStatement) and edit.at[:2] in starts:
                updated = _without(updated, body, starts.index(edit.at[:2]))
        return updated.with_changes(body=body)

    def _span(self, node: cst.CSTNode) -> Span:
        at = self.get_metadata(PositionProvider, node)
        return at.start.line, at.start.column, at.end.line, at.end.column


def _insert(body: list[Any], at: int, edit: InsertLine) -> None:
    new: Any = cst.parse_statement(edit.text)
    if not edit.before:
        body.insert(at + 1, new)
        return
    lines = body[at].leading_lines
    blank = next((i for i, line in enumerate(lines) if line.comment), len(lines))
    body[at] = body[at].with_changes(leading_lines=lines[blank:])
    body.insert(at, new.with_changes(leading_lines=lines[:blank]))


def _expression(edit: Edit, node: Any, commented: bool) -> Any:
    if isinstance(edit, (ReplaceLiteral, ReplaceExpression)):
        new: Any = cst.parse_expression(edit.text)
        return new.with_changes(lpar=(*node.lpar, *new.lpar), rpar=(*new.rpar, *node.rpar))
    if isinstance(node, cst.Call) and isinstance(edit, AddKeyword):
        value = cst.parse_expression(edit.text)
        return with_keyword(node, edit.name, value, commented=commented)
    if isinstance(node, cst.Call) and isinstance(edit, RemoveKeyword):
        return without_keyword(node, edit.name)
    return node


def _in_place_of(statement: Any, text: str) -> list[Any]:
    """The statements of ``text``, under the comments that stand above ``statement``."""
    first, *others = cst.parse_module(text).body
    return [first.with_changes(leading_lines=statement.leading_lines), *others]


def _without(block: Any, body: list[Any], at: int) -> Any:
    """``block``, its ``body`` without the statement at ``at``; comments above that stay."""
    removed = body[at]
    if len(body) == 1:
        body[at] = removed.with_changes(body=[cst.Pass()])
        return block
    del body[at]
    if at < len(body):
        lines = (*removed.leading_lines, *body[at].leading_lines)
        body[at] = body[at].with_changes(leading_lines=lines)
        return block
    return block.with_changes(footer=(*removed.leading_lines, *block.footer))


def _wrapped(statements: list[Any], header: str, indent: str | None) -> Any:
    """Comments above the first statement stay above, as they are."""
    wrapper: Any = cst.parse_statement(f"{header}: pass")
    inner = [statements[0].with_changes(leading_lines=()), *statements[1:]]
    block = cst.IndentedBlock(body=inner, indent=indent)
    return wrapper.with_changes(leading_lines=statements[0].leading_lines, body=block)
