"""A source file as a syntax tree that can be asked about names, scopes and parents."""

from __future__ import annotations

import ast
import copy
import gc
import io
import re
import threading
import tokenize
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeVar

from perftui.run.files import read_regular

_Node = TypeVar("_Node", bound=ast.AST)
_Key = TypeVar("_Key", bound=Hashable)
_PARSING = threading.Lock()
_NAMED = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler),
    *(ast.MatchAs, ast.MatchStar),
)
"""Nodes that bind their own ``name``, if they have one."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (ast.Module, *FUNCTIONS, ast.ClassDef)


Literal = bool | int | float | str | None
Span = tuple[int, int, int, int]
"""First line from 1, its column in characters from 0, last line, and the column after the end."""


class PatchRefusedError(ValueError):
    """The change is not certain to do what was meant; the message says why, for a person.

    Whatever "refuses" or is "refused" in ``script`` and ``fixes`` raises it.
    """


class NothingToChangeError(PatchRefusedError):
    """The file has nothing of what the change is about."""


@dataclass(frozen=True)
class Decided:
    """What decides a value now, and where another one is to be written."""

    value: Literal
    place: Span
    """The literal, or the call that lacks ``keyword``."""
    keyword: str | None = None
    quote: str = '"'
    """The quotation mark of the literal that stands there."""
    readers: tuple[ast.expr, ...] = field(default=(), compare=False)
    """Other reads of the value in the file, which change with it."""

    def is_a(self, kind: type[object] | None) -> bool:
        """Whether the value is of ``kind``: True is no number, but 1 does for 1.0."""
        return type(self.value) is kind or (type(self.value), kind) == (int, float)


@dataclass(frozen=True, eq=False)
class Program:
    """One parsed source file."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    """Decoded, without their ends."""

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        """Where ``node`` begins and ends; ``ast`` counts columns in UTF-8 bytes."""
        end, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return (
            *(node.lineno, self._characters(node.lineno, node.col_offset)),
            *(end, self._characters(end, end_column)),
        )

    def literal(self, node: ast.expr) -> Decided:
        """The literal ``node``, as what decides a value."""
        span = self.span(node)
        written = self.lines[span[0] - 1][span[1] :]
        quote = next((mark for mark in written if mark in "'\""), '"')
        return Decided(ast.literal_eval(node), span, quote=quote)

    def _characters(self, line: int, column: int) -> int:
        return len(self.lines[line - 1].encode()[:column].decode())

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Parents of ``node``, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def scope(self, node: ast.AST) -> ast.AST:
        """The function, class or module whose body holds ``node``."""
        return next(above for above in self.ancestors(node) if isinstance(above, _SCOPES))

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around ``node``."""
        return next(above for above in self.ancestors(node) if isinstance(above, ast.stmt))

    def function(self, node: ast.AST) -> Function | None:
        """The innermost function around ``node``; None at module level."""
        return next((above for above in self.ancestors(node) if isinstance(above, Function)), None)

    def owner(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around ``node``."""
        classes = (above for above in self.ancestors(node) if isinstance(above, ast.ClassDef))
        return next(classes, None)

    def loops(self, node: ast.AST) -> Iterator[ast.AST]:
        """Loops and comprehensions of the function that run ``node`` in each turn, innermost
        first."""
        child = node
        for above in self.ancestors(node):
            # The iterable of a loop is evaluated once.
            if isinstance(above, COMPREHENSIONS):
                is_once = child is above.generators[0].iter
            else:
                is_once = isinstance(above, (ast.For, ast.AsyncFor)) and child is above.iter
            if isinstance(above, (Loop, *COMPREHENSIONS)) and not is_once:
                yield above
            if isinstance(above, FUNCTIONS):
                return
            child = child if isinstance(above, ast.comprehension) else above

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def _statements(self) -> list[ast.stmt]:
        return [node for node in self.nodes if isinstance(node, ast.stmt)]

    @cached_property
    def _calls(self) -> list[ast.Call]:
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def _bindings(self) -> dict[str, list[ast.AST]]:
        return _by_key((bound_name(node), node) for node in self.nodes)

    @cached_property
    def _loads(self) -> dict[str, list[ast.Name]]:
        names = (node for node in self.nodes if isinstance(node, ast.Name))
        return _by_key((node.id, node) for node in names if isinstance(node.ctx, ast.Load))

    @cached_property
    def shared_names(self) -> frozenset[str]:
        """Names that a function may set in another scope."""
        shared = (node for node in self._statements if isinstance(node, (ast.Global, ast.Nonlocal)))
        return frozenset(name for node in shared for name in node.names)

    def statements(self) -> list[ast.stmt]:
        """Every statement of the file."""
        return list(self._statements)

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        """Functions and methods of the file by name."""
        defs = (node for node in self._statements if isinstance(node, Function))
        return _by_key((node.name, node) for node in defs)

    def functions_at(self, line: int) -> list[Function]:
        """The functions and methods that hold ``line``."""
        every = (one for named in self.functions.values() for one in named)
        return [one for one in every if one.lineno <= line <= (one.end_lineno or 0)]

    def own_functions(self, call: ast.Call) -> list[Function]:
        """Functions of the file that ``call`` may call: methods by name alone, the ``__init__`` of
        a class, ``__call__`` and ``forward`` of what is assigned to the variable, ``__len__`` for
        ``len``; none for a function of an imported module."""
        matches = self.functions.get(called_name(call), [])
        if not matches and (made := self._made.get(ast.unparse(call.func))):
            named = (*self.functions.get("__call__", ()), *self.functions.get("forward", ()))
            return [function for function in named if self.parents[function] in made]
        if called_name(call) == "len":
            return self.functions.get("__len__", [])
        if isinstance(call.func, ast.Name):
            classes = self.classes.get(call.func.id, [])
            inits = self.functions.get("__init__", ())
            plain = (match for match in matches if not self._is_method(match))
            return [*plain, *(init for init in inits if self.parents[init] in classes)]
        root = root_of(call.func)
        if isinstance(root, ast.Name) and root.id in self.imported:
            return []
        if isinstance(root, ast.Call) and called_name(root) == "super":
            bases = {
                ast.unparse(base) for owner in [self.owner(call)] if owner for base in owner.bases
            }
            if bases.isdisjoint(self.classes):
                return []
        return [match for match in matches if self._is_method(match)]

    @cached_property
    def callers(self) -> dict[Function, list[ast.Call]]:
        """Calls that may call each of the ``own_functions``."""
        return _by_key((own, call) for call in self._calls for own in self.own_functions(call))

    @cached_property
    def _made(self) -> dict[str, list[ast.ClassDef]]:
        """Classes of the file of which the value of a variable is made, by the variable."""
        return _by_key(
            (ast.unparse(target), made)
            for target in self.nodes
            if isinstance(getattr(target, "ctx", None), ast.Store)
            for call in ast.walk(value_given(self, target) or ast.Load())
            if isinstance(call, ast.Call)
            for made in self.classes.get(called_name(call), ())
        )

    def _is_method(self, function: Function) -> bool:
        return isinstance(self.parents[function], ast.ClassDef)

    @cached_property
    def classes(self) -> dict[str, list[ast.ClassDef]]:
        """Classes of the file by name."""
        defs = (node for node in self._statements if isinstance(node, ast.ClassDef))
        return _by_key((node.name, node) for node in defs)

    @cached_property
    def imported(self) -> frozenset[str]:
        """Names that imports give."""
        aliases = (node for node in self.nodes if isinstance(node, ast.alias))
        return frozenset(alias.asname or alias.name.split(".")[0] for alias in aliases)

    @cached_property
    def _attributes(self) -> dict[str, list[ast.Attribute]]:
        nodes = (node for node in self.nodes if isinstance(node, ast.Attribute))
        return _by_key((node.attr, node) for node in nodes)

    def attributes(self, name: str, *contexts: type[ast.expr_context]) -> list[ast.Attribute]:
        """Every attribute of that name in the file that is read (``ast.Load``), or set."""
        return [node for node in self._attributes.get(name, ()) if isinstance(node.ctx, contexts)]

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens of the file, whose columns are in characters."""
        text = "\n".join(self.lines) + "\n"
        return list(tokenize.generate_tokens(io.StringIO(text).readline))

    def comments(self, first: int, last: int) -> str:
        """Comments on the lines from ``first`` to ``last``, all in one."""
        found = (one for one in self.tokens if one.type == tokenize.COMMENT)
        return " ".join(one.string for one in found if first <= one.start[0] <= last)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which ``statement`` stands."""
        fields = (value for _, value in ast.iter_fields(self.parents[statement]))
        return next(value for value in fields if isinstance(value, list) and statement in value)

    @cached_property
    def bindings_by_scope(self) -> dict[tuple[str, ast.AST], list[ast.AST]]:
        """Every node that gives a name a value in a scope itself, by both."""
        nodes = [(name, node) for name, nodes in self._bindings.items() for node in nodes]
        return _by_key(((name, self.scope(node)), node) for name, node in nodes)

    def bindings(self, name: str) -> list[ast.AST]:
        """Every node in the file, in any scope, that gives ``name`` a value."""
        return list(self._bindings.get(name, ()))

    def loads(self, name: str) -> list[ast.Name]:
        """Every use of ``name`` in the file."""
        return list(self._loads.get(name, ()))

    def calls(self, *names: str) -> list[ast.Call]:
        """Calls of a plain name or a method among ``names``, all where there is none."""
        return [call for call in self._calls if not names or called_name(call) in names]


def parse_program(source: bytes) -> Program:
    """Parse ``source``; refused where it is not Python that this interpreter can read."""
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError) as error:
        raise PatchRefusedError(f"the file does not parse: {error}") from error
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    # Python ends lines at these only; str.splitlines would also end them at a form feed.
    return Program(tree, above, tuple(re.split("\r\n|\r|\n", source.decode(encoding))))


def syntax_tree(source: bytes) -> ast.Module:
    """The syntax tree of ``source``.

    Some releases of Python count the depth of every tree that is being made in one place
    (python/cpython#106905): where a garbage collection lets another thread parse in between, either
    ends in a SystemError. On 3.11.7 that befell 141 of 800 parses on two threads, and none with
    the collector paused.

    Raises:
        SyntaxError: it is not Python that this interpreter can read.
        ValueError: it holds a null byte.
    """
    with _PARSING:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return ast.parse(source)
        finally:
            if was_enabled:
                gc.enable()


def read_source(path: Path) -> bytes:
    """The bytes of a source file; refused where it cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        raise PatchRefusedError(f"{path} cannot be read: {error.strerror}") from error


@lru_cache(16)
def program_of(path: Path, changed: int) -> Program:  # noqa: ARG001 - part of the key
    """The program of a file that was last changed then; only its lines where it is no Python."""
    source = b""
    try:
        source = read_source(path)
        return parse_program(source)
    except (PatchRefusedError, RecursionError):
        lines = source.decode("utf-8", "replace").splitlines()
        return Program(ast.Module([], []), {}, tuple(lines))


def called_name(call: ast.Call) -> str:
    """The last part of what is called: ``add_argument`` of ``parser.add_argument``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def called_names(*nodes: ast.AST) -> set[str]:
    """Names of all that is called in ``nodes``."""
    parts = (part for node in nodes for part in ast.walk(node))
    return {called_name(part) for part in parts if isinstance(part, ast.Call)}


def variables(*nodes: ast.AST) -> set[str]:
    """Variables and attributes in ``nodes``, as written."""
    parts = (part for node in nodes for part in ast.walk(node))
    return {ast.unparse(part) for part in parts if isinstance(part, (ast.Name, ast.Attribute))}


def receiver(call: ast.Call) -> ast.expr | None:
    """``x`` of ``x.f()``."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The argument ``name`` of ``call``, if it is passed by keyword."""
    return next((kw.value for kw in call.keywords if kw.arg == name), None)


def root_of(node: ast.AST) -> ast.AST:
    """``x`` of ``x.a[0].b``."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node


def free_name(program: Program, what: str, *names: str) -> str:
    """The first of ``names`` that the file does not use, for ``what``; refused where all are."""
    for name in names:
        if not program.bindings(name) and not program.loads(name):
            return name
    raise PatchRefusedError(f"all names for {what} are taken")


def assigned_value(program: Program, target: ast.AST) -> ast.expr | None:
    """The value of ``target = value``, where ``target`` is the only one; else None."""
    statement = program.parents.get(target)
    if isinstance(statement, ast.Assign) and statement.targets == [target]:
        return statement.value
    if isinstance(statement, ast.AnnAssign) and statement.target is target:
        return statement.value
    return None


def value_given(program: Program, target: ast.AST) -> ast.expr | None:
    """What an assignment or ``with`` gives ``target``, also one of several: ``a, b = c, d``."""
    above = program.parents.get(target)
    if isinstance(above, ast.withitem):
        return above.context_expr
    if isinstance(above, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        return above.value
    if isinstance(above, (ast.Tuple, ast.List)):
        whole = value_given(program, above)
        if isinstance(whole, (ast.Tuple, ast.List)) and len(whole.elts) == len(above.elts):
            pairs = zip(above.elts, whole.elts, strict=True)
            return next((value for part, value in pairs if part is target), None)
    return None


def _by_key(pairs: Iterable[tuple[_Key | None, _Node]]) -> dict[_Key, list[_Node]]:
    groups: dict[_Key, list[_Node]] = {}
    for key, node in pairs:
        if key is not None:
            groups.setdefault(key, []).append(node)
    return groups


def with_values(node: _Node, values: Mapping[str, ast.expr | None]) -> _Node:
    """A copy of ``node`` with ``values`` in place of the names that have one."""

    class Values(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            value = values.get(name.id) if isinstance(name.ctx, ast.Load) else None
            return copy.deepcopy(value) if value else name

    replaced: _Node = Values().visit(copy.deepcopy(node))
    return replaced


def bound_name(node: ast.AST) -> str | None:
    """The name that ``node`` binds by itself, its children left out."""
    if isinstance(node, ast.Name):
        return None if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.arg):
        return node.arg
    if isinstance(node, ast.alias):
        return node.asname or node.name.split(".")[0]
    if isinstance(node, ast.MatchMapping):
        return node.rest
    return node.name if isinstance(node, _NAMED) else None


def is_literal(node: ast.expr | None) -> bool:
    """Whether ``node`` is a number with or without a sign, a string, a truth value or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float)
    return isinstance(node, ast.Constant) and isinstance(node.value, Literal)
