"""Templates of statements and expressions: Python in which ``$name`` is whatever stands there.

Both orders of a sum and of a product are the same, ``torch.sqrt`` is found by the file's imports,
and ``dim=-1`` is the same as ``-1`` behind the other arguments. A name that ``rules`` has templates
for is one of these, or a local name that was set to one before; of others the same name stands for
the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from perftui.script.local_values import LocalValues
from perftui.script.names import qualified_name
from perftui.script.program import Program

Code = ast.AST | Sequence[ast.AST]
"""An expression, a statement, or several statements."""
Rules = Mapping[str, tuple[str, ...]]
_PLACE = "place_of_"
_BY_POSITION = ("dim", "diagonal")
"""Keywords of functions whose last argument they are."""
_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop)


@dataclass(frozen=True)
class Match:
    """What the names of a template stand for, and the assignments that were followed."""

    parts: Mapping[str, ast.expr] = field(default_factory=dict)
    followed: tuple[ast.Assign, ...] = ()

    def __getitem__(self, name: str) -> ast.expr:
        """What ``$name`` stands for."""
        return self.parts[name]


@dataclass(frozen=True)
class Templates:
    """Matches templates against the code of one file."""

    program: Program
    rules: Rules = field(default_factory=dict)
    local: LocalValues | None = None
    """Follows local names."""
    where: Mapping[str, Callable[[ast.expr], bool]] = field(default_factory=dict)
    """By name, what must hold for it."""
    text: Callable[[ast.expr], str] = ast.unparse
    """By which two expressions are the same."""

    def match(self, node: Code, *templates: str, known: Match | None = None) -> Match | None:
        """How ``node`` fits the first of ``templates`` that it does, beside what is ``known``."""
        return next((one for each in templates for one in self.all(node, each, known)), None)

    def all(self, node: Code, template: str, known: Match | None = None) -> Iterator[Match]:
        """All ways in which ``template`` fits ``node``."""
        wanted = _parsed(template)
        nodes: list[object] = [node] if isinstance(node, ast.AST) else [*node]
        nodes = [one.value if isinstance(one, ast.Expr) else one for one in nodes]
        return self._in_row([*wanted], nodes, known or Match())

    def _fits(self, wanted: ast.AST, node: ast.AST, known: Match) -> Iterator[Match]:
        if isinstance(wanted, ast.Name) and wanted.id.startswith(_PLACE):
            if isinstance(node, ast.expr):
                yield from self._placed(wanted.id.removeprefix(_PLACE), node, known)
        elif isinstance(wanted, ast.Attribute) and _is_of_module(wanted):
            named = qualified_name(self.program, node) if isinstance(node, ast.expr) else None
            yield from [known] if named == ast.unparse(wanted) else []
        elif type(wanted) is not type(node):
            return
        elif isinstance(wanted, ast.Call):
            yield from self._called(wanted, node, known)  # type: ignore[arg-type] # of one type
        elif isinstance(wanted, ast.Constant):
            yield from [known] if wanted.value == getattr(node, "value", None) else []
        else:
            yield from self._in_row(_children(wanted), _children(node), known)
            if isinstance(wanted, ast.BinOp) and isinstance(wanted.op, (ast.Add, ast.Mult)):
                turned = ast.BinOp(wanted.right, wanted.op, wanted.left)
                yield from self._in_row(_children(turned), _children(node), known)

    def _placed(self, name: str, node: ast.expr, known: Match) -> Iterator[Match]:
        if name in self.rules:
            statement = self.local.assignment(node) if self.local else None
            if statement is not None:
                node, known = statement.value, Match(known.parts, (*known.followed, statement))
            for template in self.rules[name]:
                yield from self.all(node, template, known)
        elif name in known.parts:
            yield from [known] if self.text(known[name]) == self.text(node) else []
        elif name not in self.where or self.where[name](node):
            yield Match({**known.parts, name: node}, known.followed)

    def _called(self, wanted: ast.Call, call: ast.Call, known: Match) -> Iterator[Match]:
        """``**_`` in a template is whatever else is given by name."""
        open_ = any(one.arg is None for one in wanted.keywords)
        names = {one.arg: one.value for one in wanted.keywords if one.arg is not None}
        by_position = [one.value for one in call.keywords if one.arg in _BY_POSITION]
        given = {one.arg: one.value for one in call.keywords if one.arg not in _BY_POSITION}
        if names.keys() != given.keys() and not (open_ and names.keys() <= given.keys()):
            return
        yield from self._in_row(
            [wanted.func, *wanted.args, *names.values()],
            [call.func, *call.args, *by_position, *(given[name] for name in names)],
            known,
        )

    def _in_row(self, wanted: list[object], nodes: list[object], known: Match) -> Iterator[Match]:
        if len(wanted) != len(nodes):
            return
        if not wanted:
            yield known
            return
        first, node = wanted[0], nodes[0]
        if isinstance(first, ast.AST) and isinstance(node, ast.AST):
            for one in self._fits(first, node, known):
                yield from self._in_row(wanted[1:], nodes[1:], one)
        elif first == node:
            yield from self._in_row(wanted[1:], nodes[1:], known)


@lru_cache(maxsize=512)
def _parsed(template: str) -> tuple[ast.AST, ...]:
    statements = ast.parse(template.replace("$", _PLACE)).body
    return tuple(one.value if isinstance(one, ast.Expr) else one for one in statements)


def _is_of_module(node: ast.expr) -> bool:
    """``torch.nn.functional.softmax``, and no attribute of what is looked for."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "math", "numpy")


def _children(node: ast.AST) -> list[object]:
    """What ``node`` is made of, in order; lists with their length, operators by their class."""
    found: list[object] = []
    for name, value in ast.iter_fields(node):
        if name in ("ctx", "type_comment", "kind"):
            continue
        if isinstance(value, list):
            found.append(len(value))
        parts = value if isinstance(value, list) else [value]
        found += [type(one) if isinstance(one, _OPERATORS) else one for one in parts]
    return found
