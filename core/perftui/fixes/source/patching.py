"""Patches of a call's arguments: found, planned, written and proved.

Edits are made in the text, touching no other byte. A proof makes them in the syntax tree, and both
must come to the same: two versions of a file differ by what was asked for, and by nothing else.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

from perftui.fixes.option import Patch
from perftui.fixes.source.calls import (
    CallSpec,
    call_at,
    consequences,
    decided,
    each_changed,
    stale_texts,
)
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
    first_line,
    from_the_end,
    last_line,
    line_end,
)
from perftui.script.names import qualified_name
from perftui.script.program import (
    Literal,
    PatchRefusedError,
    Program,
    Span,
    is_literal,
    parse_program,
    read_source,
)

_BREAK = re.compile("\r\n|\r|\n")
_COMMENT = re.compile("#[^\r\n]*")

Splice = tuple[int, int, str]
"""A part of a text, by its first character and the one behind its last, and what replaces it."""


def rewrite(source: bytes, edits: Sequence[Edit]) -> bytes:
    """``source`` with ``edits`` made, in its own encoding and line ends; refused where the file
    cannot be given back byte for byte, or a comment would be lost."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    text = source.decode(encoding)
    if text.encode(encoding) != source:
        raise PatchRefusedError("the file cannot be written back byte for byte")
    splices = list(_Splices(source, text).of_all(from_the_end(edits)))
    for start, end, new in sorted(splices, key=lambda one: one[:2], reverse=True):
        text = text[:start] + new + text[end:]
    try:
        return text.encode(encoding)
    except UnicodeEncodeError as error:
        raise PatchRefusedError(
            f"the file's encoding, {error.encoding}, has no such text"
        ) from error


class _Argument(NamedTuple):
    """One argument of a call; places are those of the text."""

    name: str | None
    """Its keyword; None of ``**``, and empty without."""
    start: int
    end: int
    after: int
    """Behind its comma, 0 where it has none."""


class _Splices:
    """What edits replace in a text."""

    def __init__(self, source: bytes, text: str) -> None:
        self._text, self._program = text, parse_program(source)
        self._starts = [0, *(found.end() for found in _BREAK.finditer(text))]
        found, lines = _BREAK.search(text), self._program.lines
        self._newline = found[0] if found else "\n"
        begun = (lines[node.lineno - 1][: node.col_offset] for node in self._program.statements())
        self._unit = next((space for space in begun if space and space.isspace()), "    ")
        """One level of indentation."""

    def of_all(self, edits: Sequence[Edit]) -> Iterator[Splice]:
        """Of all ``edits``; one at a place of another kind has none, which the proof finds."""
        calls = {self._program.span(call): call for call in self._program.calls()}
        statements = {self._program.span(node): node for node in self._program.statements()}
        for edit in edits:
            if isinstance(edit, ReplaceExpression):
                yield (*self._place(edit.at), edit.text)
            elif not isinstance(edit, (AddKeyword, RemoveKeyword)):
                yield from self._lines(edit, statements)
        for at in dict.fromkeys(edit.at for edit in edits if edit.at in calls):
            added = [one for one in edits if isinstance(one, AddKeyword) and one.at == at]
            removed = {one.name for one in edits if isinstance(one, RemoveKeyword) and one.at == at}
            yield from self._added(calls[at], added) if added else ()
            yield from self._removed(calls[at], removed) if removed else ()

    def _place(self, span: Span) -> tuple[int, int]:
        return self._starts[span[0] - 1] + span[1], self._starts[span[2] - 1] + span[3]

    def _arguments(self, call: ast.Call) -> tuple[list[_Argument], int, int]:
        """The arguments of ``call``, and where its brackets open and close."""
        nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
        nodes.sort(key=lambda one: (one.lineno, one.col_offset))
        places = [self._place(self._program.span(node)) for node in nodes]
        func, close = (self._place(self._program.span(one))[1] for one in (call.func, call))
        opened = func + self._without_comments(func, close).find("(") + 1
        result = []
        for at, (node, (start, end)) in enumerate(zip(nodes, places, strict=True)):
            bound = places[at + 1][0] if at + 1 < len(places) else close - 1
            before, comma, _ = self._without_comments(end, bound).partition(",")
            after = end + len(before) + 1 if comma else 0
            # Brackets around an argument are no part of it for Python.
            end += before.rfind(")") + 1
            result.append(_Argument(getattr(node, "arg", ""), start, end, after))
        return result, opened, close - 1

    def _without_comments(self, start: int, end: int) -> str:
        return _COMMENT.sub(lambda found: " " * len(found[0]), self._text[start:end])

    def _line_end(self, start: int, end: int) -> int:
        found = _BREAK.search(self._text, start, end)
        return found.start() if found else end

    def _space(self, start: int, end: int) -> str:
        """A line break in that part with the indentation behind it, or the blanks that it is."""
        space = _COMMENT.sub("", self._text[start:end])
        return self._newline + _BREAK.split(space)[-1] if _BREAK.search(space) else space

    def _added(self, call: ast.Call, edits: Sequence[AddKeyword]) -> Iterator[Splice]:
        """Keywords behind the last argument, before any ``**``: one argument a line stays one a
        line, a trailing comma stays, comments stay with the argument they follow, and ``a = b``
        keeps its spaces."""
        arguments, opened, close = self._arguments(call)
        written = (self._text[each.start : each.end] for each in arguments if each.name)
        equals = (re.match(r"\w+(\s*=\s*)", one) for one in written)
        equal = next((found[1] for found in equals if found), "=")
        new = [f"{edit.name}{equal}{edit.text}" for edit in edits]
        if not arguments:
            yield close, close, ", ".join(new)
            return
        ends = [opened, *(each.after for each in arguments)]
        spaces = [self._space(end, each.start) for end, each in zip(ends, arguments, strict=False)]
        spaces[0] = spaces[0] if _BREAK.search(spaces[0]) else " "
        for each, space in zip(arguments, spaces, strict=True):
            if each.name is None:
                yield each.start, each.start, "".join(f"{one},{space}" for one in new)
                return
        last, space = arguments[-1], spaces[-1]
        at = last.after or last.end
        line = self._line_end(at, close)
        if line < close and _BREAK.search(space):
            at = line
        elif line == close and "#" in self._text[close : self._line_end(close, len(self._text))]:
            # The comment may be about the last argument.
            space = " "
        text = ",".join(f"{space}{one}" for one in new)
        yield at, at, f"{text}," if last.after else text
        if not last.after:
            yield last.end, last.end, ","

    def _removed(self, call: ast.Call, names: set[str]) -> Iterator[Splice]:
        """Takes keywords out; what closed the list closes it again. Refused where a comment stands
        with one."""
        arguments, opened, close = self._arguments(call)
        kept = [at for at, each in enumerate(arguments) if each.name not in names]
        rest = kept[-1] + 1 if kept else 0
        for this, after in pairwise(arguments[:rest]):
            if this.name in names:
                self._refuse_comment(this, this.start, after.start)
                yield this.start, after.start, ""
        if rest == len(arguments):
            return
        this, last = arguments[rest], arguments[-1]
        before = arguments[rest - 1] if rest else _Argument("", opened, opened, opened)
        end = last.after or last.end
        line = self._line_end(end, close)
        self._refuse_comment(this, this.start, line)
        self._refuse_comment(this, before.end, before.after)
        begin = before.after
        if above := list(_COMMENT.finditer(self._text, begin, this.start)):
            # Without a line break the bracket would become part of the comment.
            begin = above[-1].end() if line < close else this.start
        yield begin, end, ""
        if not last.after:
            yield before.end, before.after, ""

    def _refuse_comment(self, this: _Argument, start: int, end: int) -> None:
        if "#" in self._text[start:end]:
            raise PatchRefusedError(f"a comment stands with {this.name}, and would be lost")

    def _lines(self, edit: Edit, statements: dict[Span, ast.stmt]) -> Iterator[Splice]:
        """Of whole lines."""
        node, lines = statements[edit.at], self._program.lines
        block = self._program.block(node)
        first, last = first_line(node), last_line(node)
        start, column = self._starts[first - 1], edit.at[1]
        indent = lines[node.lineno - 1][:column].removeprefix("\ufeff")
        starts = [*self._starts, len(self._text)]
        if isinstance(edit, RemoveStatement) and len(block) == 1:
            yield start + column, self._place(edit.at)[1], "pass"
        elif isinstance(edit, RemoveStatement):
            is_end = last == len(lines) and first > 1
            yield self._line_end(starts[first - 2], start) if is_end else start, starts[last], ""
        elif isinstance(edit, ReplaceStatement):
            text = edit.text.replace("\n    ", f"\n{self._unit}")
            text = text.replace("\n", f"{self._newline}{indent}")
            yield start + column, starts[last - 1] + len(lines[last - 1]), text
        elif isinstance(edit, WrapBlock):
            end = block[line_end(block, block.index(statements[edit.last])) - 1]
            yield from self._wrapped(edit.header, indent, first, last_line(end))
        elif isinstance(edit, InsertLine) and edit.before:
            at = starts[self._beside(first, -1, f"{indent}#.*") - 1]
            yield at, at, f"{indent}{edit.text}{self._newline}"
        elif isinstance(edit, InsertLine):
            # Comments that end the block of the statement stay in it.
            last = last_line(block[line_end(block, block.index(node)) - 1])
            last = self._beside(last, 1, rf"{indent}[ \t]+#.*")
            at = starts[last - 1] + len(lines[last - 1])
            yield at, at, f"{self._newline}{indent}{edit.text}"

    def _beside(self, line: int, step: int, comment: str) -> int:
        """The last line that is a ``comment``, from ``line`` on, with nothing but such and blank
        ones between."""
        lines, at = self._program.lines, line + step
        while 0 < at <= len(lines) and re.fullmatch(rf"\s*|{comment}", lines[at - 1]):
            line = at if lines[at - 1].strip() else line
            at += step
        return line

    def _wrapped(self, header: str, indent: str, first: int, last: int) -> Iterator[Splice]:
        """Those lines one level deeper under ``header``; lines of a string stay as they are."""
        kinds = ("STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE")
        strings = (one for one in self._program.tokens if tokenize.tok_name[one.type] in kinds)
        of_strings = {*chain(*(range(one.start[0] + 1, one.end[0] + 1) for one in strings))}
        for number in {*range(first, last + 1)} - of_strings:
            line = self._program.lines[number - 1]
            if line.strip() and line.startswith(indent):
                at = self._starts[number - 1] + len(indent)
                yield at, at, self._unit
        start = self._starts[first - 1]
        yield start, start, f"{indent}{header}:{self._newline}"


def verify_edits(before: bytes, after: bytes, edits: Sequence[Edit]) -> Mapping[Span, int]:
    """For each call of ``before`` the line at which it begins in ``after``; refused where ``after``
    does not parse, or is not ``before`` with each edit made once."""
    program = parse_program(before)
    now = parse_program(after).tree
    spans = {call: program.span(call) for call in program.calls()}
    meant = _Meant(program, edits)
    tree = meant.visit(program.tree)
    if sorted(map(repr, meant.made)) != sorted(map(repr, edits)) or ast.dump(tree) != ast.dump(now):
        raise PatchRefusedError("the edit would change something else than what was requested")
    pairs = zip(ast.walk(tree), ast.walk(now), strict=True)
    return {spans[old]: getattr(new, "lineno", 0) for old, new in pairs if old in spans}


class _Meant(ast.NodeTransformer):
    """Makes each edit in a syntax tree, at the nodes that have its spans."""

    def __init__(self, program: Program, edits: Sequence[Edit]) -> None:
        self._program = program
        self._edits = from_the_end(edits)
        self.made: list[Edit] = []

    def visit(self, node: ast.AST) -> ast.AST:
        """``node`` with the edits made in it and below."""
        span = self._span(node)
        self.generic_visit(node)
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self._block(value)
        for edit in self._edits:
            if span == edit.at and isinstance(node, ast.expr):
                node = self._expression(edit, node)
        return node

    def _span(self, node: ast.AST) -> Span | None:
        # Nodes that the edits have put in are at no line of the file.
        if isinstance(node, (ast.expr, ast.stmt)) and node.lineno:
            return self._program.span(node)
        return None

    def _expression(self, edit: Edit, node: ast.expr) -> ast.expr:
        # Nothing is replaced twice, nor is a keyword given twice.
        is_meant = not isinstance(edit, ReplaceLiteral) or is_literal(node)
        if isinstance(edit, ReplaceExpression) and is_meant and node.lineno:
            self.made.append(edit)
            new = _expression(edit.text)
            if isinstance(node, ast.Name) and isinstance(new, ast.Name):
                new.ctx = node.ctx
            return new
        if isinstance(node, ast.Call) and isinstance(edit, (AddKeyword, RemoveKeyword)):
            names = [keyword.arg for keyword in node.keywords]
            if isinstance(edit, AddKeyword) and edit.name not in names:
                at = names.index(None) if None in names else len(names)
                node.keywords.insert(at, ast.keyword(edit.name, _expression(edit.text)))
                self.made.append(edit)
            elif isinstance(edit, RemoveKeyword) and edit.name in names:
                del node.keywords[names.index(edit.name)]
                self.made.append(edit)
        return node

    def _block(self, body: list[ast.stmt]) -> None:
        spans = [self._span(statement) for statement in body]
        for edit in self._edits:
            if isinstance(edit, InsertLine) and edit.at in spans:
                at = spans.index(edit.at) if edit.before else line_end(body, spans.index(edit.at))
                body[at:at] = _unplaced(edit.text)
                self.made.append(edit)
            elif isinstance(edit, WrapBlock) and edit.at in spans and edit.last in spans:
                first, last = spans.index(edit.at), line_end(body, spans.index(edit.last))
                (wrapper,) = _unplaced(f"{edit.header}: pass")
                wrapper.body = body[first:last]  # type: ignore[attr-defined] # a with or an if
                body[first:last] = [wrapper]
                self.made.append(edit)
            elif isinstance(edit, ReplaceStatement) and edit.at in spans:
                at = spans.index(edit.at)
                body[at : at + 1] = _unplaced(edit.text)
                self.made.append(edit)
            elif isinstance(edit, RemoveStatement) and edit.at in spans:
                at = spans.index(edit.at)
                body[at : at + 1] = [] if len(body) > 1 else _unplaced("pass")
                self.made.append(edit)


def _expression(text: str) -> ast.expr:
    (statement,) = _unplaced(text)
    value: ast.expr = statement.value  # type: ignore[attr-defined] # what is parsed is one
    return value


def _unplaced(text: str) -> list[ast.stmt]:
    """Statements that are at no line of the file, so that they are not taken for others."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = 0
    return tree.body


def call_patch(
    path: Path,
    line: int,
    spec: CallSpec,
    arguments: Mapping[str, Literal],
    seen: Mapping[str, Literal] | None = None,
) -> Patch:
    """Patch the call at ``line`` of ``path`` so that it is made with ``arguments``; refused where
    the change is not certain, or nothing would change.

    A value that stands in a variable, a dict or the default of a command-line option is changed
    there. ``seen`` are the values that the script itself gave in a run, None where that is not
    known: where the source has another value, it is not what decides."""
    source = read_source(path)
    program = parse_program(source)
    call = call_at(program, line, spec)
    spec = replace(spec, seen={k: v for k, v in (seen or {}).items() if v is not None})
    for name, had in spec.seen.items():
        if name in arguments:
            says = decided(program, call, spec, name, type(arguments[name])).value
            if says != had:
                raise PatchRefusedError(f"the source says {name}={says!r}, but the run had {had!r}")
    edits = (spec.plan or each_changed)(spec, program, call, arguments)
    if not edits:
        raise PatchRefusedError("the call already has these arguments")
    at = program.span(call)
    target = spec.names[qualified_name(program, call.func) or ""]
    after, lines = apply_edits(source, list(edits.values()))
    values = {name: arguments[name] for name in edits if name in arguments}
    # Other reads of the values that the edits change outside of the call.
    readers = [
        reader
        for name, edit in edits.items()
        if name in values and edit.at != at
        for reader in decided(program, call, spec, name, type(values[name])).readers
    ]
    notes = consequences(program, call, spec, readers, path.name)
    stale = stale_texts(program, edits.values(), path.name)
    beside = any(name not in arguments and edit.at != at for name, edit in edits.items())
    return Patch(path, source, after, values, target, lines[at], (*notes, *stale), beside)


def apply_edits(source: bytes, edits: Sequence[Edit]) -> tuple[bytes, Mapping[Span, int]]:
    """``source`` with ``edits`` made, and for each call that it had the line where it begins now;
    refused where more or less than the edits would change."""
    after = rewrite(source, edits)
    return after, verify_edits(source, after, edits)
