"""Templates of statements and expressions: Python in which ``$name`` is whatever stands there.

Both orders of a sum and of a product are the same, ``torch.sqrt`` is found by the file's imports,
and ``dim=-1`` is the same as ``-1`` behind the other arguments. A name with templates in ``rules``
matches one of these, or a local name that was set to one before; any other name stands for the same
code everywhere."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from perftui.script.names import qualified_name
from perftui.script.program import PatchRefusedError, Program, bound_name, root_of, value_given


class LocalValues:
    """Follows names back from an expression through the block that it stands in."""

    def __init__(self, program: Program, function: ast.FunctionDef, end: ast.expr) -> None:
        self._program = program
        self._function = function
        self._end = end
        self._last = program.statement(end)
        self._block = program.block(self._last)
        self._bound: dict[ast.stmt, set[str | None]] = {}
        self._used: list[ast.Assign] = []

    def followed(self, node: ast.expr) -> ast.expr:
        """The value of ``node`` if it is a name that is assigned before it, else ``node``."""
        statement = self.assignment(node)
        if statement is None:
            return node
        self._used.append(statement)
        return statement.value

    def take(self, assignments: Iterable[ast.Assign]) -> None:
        """Note that ``assignments`` were followed."""
        self._used += assignments

    def peeked(self, node: ast.expr) -> ast.expr:
        """As ``followed``, but the assignment stays."""
        statement = self.assignment(node)
        return node if statement is None else statement.value

    def assignment(self, node: ast.expr) -> ast.Assign | None:
        """The assignment of ``node``, if it is a name that is assigned before the end."""
        if not isinstance(node, ast.Name):
            return None
        for statement in reversed(self._block[: self._number(node)]):
            if self._binds(statement, node.id):
                is_it = isinstance(statement, ast.Assign) and assigned_name(statement) == node.id
                return statement if isinstance(statement, ast.Assign) and is_it else None
        return None

    def used(self) -> list[ast.stmt]:
        """The assignments that were followed and that stand for nothing else; refused where
        something else reads what one of them sets."""
        chosen = list(dict.fromkeys(self._used))
        inside = {node for part in (*chosen, self._end) for node in ast.walk(part)}
        for name in {assigned_name(node) for node in chosen}:
            for use in self._program.loads(name or ""):
                if use in inside or self._function not in set(self._program.ancestors(use)):
                    continue
                # A read after a new assignment sees that one, a read before the first an older one.
                if assigned_name(self._last) == name and use.lineno > self._last.lineno:
                    continue
                first = min(node.lineno for node in chosen if assigned_name(node) == name)
                if use.lineno < first and self._block is self._function.body:
                    continue
                raise PatchRefusedError(f"line {use.lineno} reads {name}, too")
        return [*chosen]

    def refuse_taken_out(self, *parts: ast.expr | None) -> None:
        """Refuse unless ``parts`` read none of the names whose assignments were followed: one would
        have another value, or none, without them."""
        names = {assigned_name(node) for node in self._used}
        for part in (part for part in parts if part is not None):
            for node in ast.walk(part):
                if isinstance(node, ast.Name) and node.id in names:
                    raise PatchRefusedError(f"line {node.lineno} reads {node.id}, too")

    def refuse_changed(self, *parts: ast.expr | None) -> None:
        """Refuse unless names that ``parts`` read have the same value at the end of the block."""
        for part in (part for part in parts if part is not None):
            names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
            for name in sorted(names):
                self.refuse_set(name, self._block[self._number(part)])

    def refuse_set(self, name: str, since: ast.stmt) -> None:
        """Refuse unless ``name`` has the same value at the end of the block as after ``since``."""
        first, end = self._block.index(since) + 1, self._block.index(self._last)
        for statement in self._block[first:end]:
            # A method may change the tensor in place.
            called = [n for n in ast.walk(statement) if isinstance(n, ast.Attribute)]
            in_place = any(
                isinstance(node.value, ast.Name) and node.value.id == name
                for node in called
                if node.attr.endswith("_")
            )
            if in_place or self._binds(statement, name):
                raise PatchRefusedError(f"line {statement.lineno} sets {name} in between")

    def _number(self, node: ast.expr) -> int:
        """Number of the statement of the block with ``node``; the last if it is elsewhere."""
        for above in self._program.ancestors(node):
            if above in self._block:
                return self._block.index(above)
        return self._block.index(self._last)

    def _binds(self, statement: ast.stmt, name: str) -> bool:
        if statement not in self._bound:
            self._bound[statement] = {bound_name(node) for node in ast.walk(statement)}
        return name in self._bound[statement]


def assigned_name(statement: ast.stmt) -> str | None:
    """``x`` of ``x = ...``; None where ``statement`` is another."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def own_layer(program: Program, function: ast.expr, kind: str) -> ast.Call | None:
    """``nn.Dropout(0.1)`` of ``self.dropout``, where the class sets it once and to that kind."""
    value = own_attribute(program, function)
    if not isinstance(value, ast.Call):
        return None
    name = qualified_name(program, value.func) or ""
    is_kind = name.startswith("torch.nn.") and name.rpartition(".")[2] == kind
    return value if is_kind else None


def own_attribute(program: Program, node: ast.expr) -> ast.expr | None:
    """The value of ``self.x``, if its class sets it once."""
    if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "self":
        return None
    stores = own_stores(program, node)
    return value_given(program, stores[0]) if len(stores) == 1 else None


def own_stores(program: Program, node: ast.Attribute) -> list[ast.Attribute]:
    """All stores of ``self.x`` in its class."""
    owner, stores = program.owner(node), program.attributes(node.attr, ast.Store, ast.Del)
    return [store for store in stores if owner is not None and owner in program.ancestors(store)]


def buffers(program: Program, owner: ast.ClassDef | None, name: str) -> list[ast.expr]:
    """What a class registers as its buffer ``name``."""
    calls = (call for call in program.calls("register_buffer") if program.owner(call) is owner)
    named = (call.args for call in calls if len(call.args) > 1)
    return [args[1] for args in named if getattr(args[0], "value", None) == name]


Code = ast.AST | Sequence[ast.AST]
"""An expression, a statement, or several statements."""
Rules = Mapping[str, tuple[str, ...]]
_PLACE = "place_of_"
_BY_POSITION = ("dim", "diagonal")
"""Keywords of functions whose last argument they are."""
_OPERATORS = (ast.operator, ast.unaryop, ast.cmpop)
_MODULES = ("torch", "math", "numpy")
"""Modules whose names templates may have."""


@dataclass(frozen=True)
class Match:
    """The values of a template's names, and the assignments that were followed."""

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
    """The condition for each name."""
    text: Callable[[ast.expr], str] = ast.unparse
    """Expressions with the same text are the same."""

    def match(self, node: Code, *templates: str, known: Match | None = None) -> Match | None:
        """The first match of ``node`` with one of ``templates``, consistent with ``known``."""
        return next((match for form in templates for match in self.all(node, form, known)), None)

    def all(self, node: Code, template: str, known: Match | None = None) -> Iterator[Match]:
        """All ways in which ``template`` fits ``node``."""
        wanted = _parsed(template)
        nodes: list[object] = [node] if isinstance(node, ast.AST) else [*node]
        nodes = [part.value if isinstance(part, ast.Expr) else part for part in nodes]
        return self._in_row([*wanted], nodes, known or Match())

    def _fits(self, wanted: ast.AST, node: ast.AST, known: Match) -> Iterator[Match]:
        if isinstance(wanted, ast.Name) and wanted.id.startswith(_PLACE):
            if isinstance(node, ast.expr):
                yield from self._placed(wanted.id.removeprefix(_PLACE), node, known)
        elif isinstance(wanted, ast.Attribute) and getattr(root_of(wanted), "id", "") in _MODULES:
            name = qualified_name(self.program, node) if isinstance(node, ast.expr) else None
            yield from [known] if name == ast.unparse(wanted) else []
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
        """``**_`` in a template stands for any other keyword arguments."""
        open_ = any(kw.arg is None for kw in wanted.keywords)
        names = {kw.arg: kw.value for kw in wanted.keywords if kw.arg is not None}
        by_position = [kw.value for kw in call.keywords if kw.arg in _BY_POSITION]
        by_name = {kw.arg: kw.value for kw in call.keywords if kw.arg not in _BY_POSITION}
        if names.keys() != by_name.keys() and not (open_ and names.keys() <= by_name.keys()):
            return
        yield from self._in_row(
            [wanted.func, *wanted.args, *names.values()],
            [call.func, *call.args, *by_position, *(by_name[name] for name in names)],
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
            for match in self._fits(first, node, known):
                yield from self._in_row(wanted[1:], nodes[1:], match)
        elif first == node:
            yield from self._in_row(wanted[1:], nodes[1:], known)


@lru_cache(maxsize=512)
def _parsed(template: str) -> tuple[ast.AST, ...]:
    statements = ast.parse(template.replace("$", _PLACE)).body
    return tuple(node.value if isinstance(node, ast.Expr) else node for node in statements)


def _children(node: ast.AST) -> list[object]:
    """The children of ``node`` in order; lists with their length, operators by their class."""
    result: list[object] = []
    for name, value in ast.iter_fields(node):
        if name in ("ctx", "type_comment", "kind"):
            continue
        if isinstance(value, list):
            result.append(len(value))
        parts = value if isinstance(value, list) else [value]
        result += [type(part) if isinstance(part, _OPERATORS) else part for part in parts]
    return result
