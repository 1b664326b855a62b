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

from perftui.fixes.source.edits import (
    AddKeyword,
    Edit,
    InsertLine,
    RemoveKeyword,
    RemoveStatement,
    ReplaceExpression,
    ReplaceStatement,
    WrapBlock,
    from_the_end,
)
from perftui.script.program import PatchRefusedError, Span


def with_keyword(
    call: cst.Call, name: str, value: cst.BaseExpression, *, commented: bool = False
) -> cst.Call:
    """``call`` with ``name=value`` after its last argument, before any ``**kwargs``.

    One argument a line stays one a line, a trailing comma stays, comments stay with the argument
    they follow, and ``a = b`` keeps its spaces. ``commented``: a comment stands behind the closing
    bracket; where the last argument is on its line, it may be about that, and they stay together.
    """
    args = list(call.args)
    at = next((i for i, arg in enumerate(args) if arg.star == "**"), len(args))
    added = cst.Arg(value=value, keyword=cst.Name(name), equal=_equal(args))
    if at < len(args):
        comma = _plain(args[at - 1].comma) if at else _first_separator(call)
        args.insert(at, added.with_changes(comma=comma))
    elif args:
        last = args[-1]
        closing = last.whitespace_after_arg
        if isinstance(last.comma, cst.Comma):
            closing = last.comma.whitespace_after
        # Whether a line ends between the last argument and the closing bracket.
        breaks = isinstance(closing, cst.ParenthesizedWhitespace)
        if commented and not breaks:
            separator = _plain(cst.MaybeSentinel.DEFAULT)
        else:
            separator = _plain(args[-2].comma) if len(args) > 1 else _first_separator(call)
        args[-1:] = _appended(args, added, separator)
    else:
        args = [added]
    return call.with_changes(args=args)


def without_keyword(call: cst.Call, name: str) -> cst.Call:
    """``call`` without its keyword ``name``, if it has it; what closed the list closes it again;
    refused where a comment stands with it."""
    args = list(call.args)
    names = [arg.keyword.value if arg.keyword else None for arg in args]
    if name not in names:
        return call
    at = names.index(name)
    removed = args.pop(at)
    comma = removed.comma
    closing = removed.whitespace_after_arg
    if isinstance(comma, cst.Comma):
        closing = comma.whitespace_after
    before = args[-1].comma if args and at == len(args) else None
    dropped: list[cst.CSTNode] = [removed]
    if at == len(args):
        # Comment lines behind the last argument are about what comes after it, and stay.
        none = cst.SimpleWhitespace("")
        bare = removed.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=none)
        dropped = [bare, getattr(closing, "first_line", closing)]
        dropped += [before.whitespace_before] if isinstance(before, cst.Comma) else []
    if any(map(_has_comment, dropped)):
        raise PatchRefusedError(f"a comment stands with {name}, and would be lost")
    if at < len(args):
        return call.with_changes(args=args)
    if not args:
        opening = _joined(call.whitespace_before_args, closing)
        return call.with_changes(args=args, whitespace_before_args=opening)
    last = args[-1]
    space = _joined(before.whitespace_after if isinstance(before, cst.Comma) else closing, closing)
    if isinstance(comma, cst.Comma):
        args[-1] = last.with_changes(comma=comma.with_changes(whitespace_after=space))
    else:
        args[-1] = last.with_changes(comma=comma, whitespace_after_arg=space)
    return call.with_changes(args=args)


def _has_comment(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Comment) or any(map(_has_comment, node.children))


def _joined(
    before: cst.BaseParenthesizableWhitespace, closing: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """The closing white space of a list, after comments from ``before`` the removed argument."""
    if not isinstance(before, cst.ParenthesizedWhitespace) or not _has_comment(before):
        return closing
    if not isinstance(closing, cst.ParenthesizedWhitespace):
        return before
    lines = [*before.empty_lines, *closing.empty_lines]
    return closing.with_changes(first_line=before.first_line, empty_lines=lines)


def _equal(args: list[cst.Arg]) -> cst.AssignEqual:
    """The spacing of the other keywords."""
    for arg in args:
        if isinstance(arg.equal, cst.AssignEqual):
            return arg.equal.deep_clone()
    none = cst.SimpleWhitespace("")
    return cst.AssignEqual(whitespace_before=none, whitespace_after=none)


def _first_separator(call: cst.Call) -> cst.Comma:
    opening = call.whitespace_before_args
    if isinstance(opening, cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=_without_comments(opening))
    return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))


def _plain(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma:
    """A copy of ``comma`` and the white space after it, without comments."""
    if not isinstance(comma, cst.Comma):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    after = comma.whitespace_after
    if isinstance(after, cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=_without_comments(after))
    return comma.deep_clone()


def _without_comments(space: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    newline = cst.TrailingWhitespace(newline=space.first_line.newline.deep_clone())
    return space.with_changes(first_line=newline, empty_lines=[]).deep_clone()


def _appended(args: list[cst.Arg], added: cst.Arg, separator: cst.Comma) -> list[cst.Arg]:
    """The last argument and ``added`` behind it; what closed the list closes it again."""
    last = args[-1]
    if isinstance(last.comma, cst.Comma):
        closing = last.comma.whitespace_after
        between, closing = _moved_comment(separator, closing)
        comma = last.comma.with_changes(whitespace_after=closing)
        return [last.with_changes(comma=between), added.with_changes(comma=comma)]
    between, closing = _moved_comment(separator, last.whitespace_after_arg)
    last = last.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace(""))
    return [last, added.with_changes(whitespace_after_arg=closing)]


def _moved_comment(
    separator: cst.Comma, closing: cst.BaseParenthesizableWhitespace
) -> tuple[cst.Comma, cst.BaseParenthesizableWhitespace]:
    """A comment behind the last argument stays on its line when the new one starts another."""
    between = separator.whitespace_after
    if not (
        isinstance(between, cst.ParenthesizedWhitespace)
        and isinstance(closing, cst.ParenthesizedWhitespace)
    ):
        return separator, closing
    commented = between.with_changes(first_line=closing.first_line)
    bare = cst.TrailingWhitespace(newline=closing.first_line.newline.deep_clone())
    return (
        separator.with_changes(whitespace_after=commented),
        closing.with_changes(first_line=bare),
    )


def rewrite(source: bytes, edits: Sequence[Edit]) -> bytes:
    """``source`` with ``edits`` made, in its own encoding and line ends; refused where LibCST
    cannot give the file back byte for byte, or a comment would be lost."""
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
                # Under the comments that stand above the statement.
                lines = body[at].leading_lines
                first_new, *others = cst.parse_module(edit.text).body
                body[at : at + 1] = [first_new.with_changes(leading_lines=lines), *others]
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
    if isinstance(edit, ReplaceExpression):
        new: Any = cst.parse_expression(edit.text)
        return new.with_changes(lpar=(*node.lpar, *new.lpar), rpar=(*new.rpar, *node.rpar))
    if isinstance(node, cst.Call) and isinstance(edit, AddKeyword):
        return with_keyword(node, edit.name, cst.parse_expression(edit.text), commented=commented)
    if isinstance(node, cst.Call) and isinstance(edit, RemoveKeyword):
        return without_keyword(node, edit.name)
    return node


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
