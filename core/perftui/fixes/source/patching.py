"""Patches of a call's arguments: found, planned, written and proved.

A proof makes the edits in the syntax tree, as ``rewriting`` does in the text, and both must come to
the same: two versions of a file differ by the edits that were asked for, and by nothing else.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
    from_the_end,
    line_end,
)
from perftui.fixes.source.rewriting import rewrite
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
