"""Work whose result nobody reads, or only the last or a rare one: who reads what a line gives?

A result is followed through names, tuples, dicts, lists, attributes, functions of the file and
batches of a loader. What is not certain counts as read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from perftui.script.effects import CHANGING, HARMLESS_EXCEPTIONS, PURE, may_change
from perftui.script.names import as_calls, bindings_of, calls_of, later_reads, qualified_name
from perftui.script.program import (
    FUNCTIONS,
    Loop,
    Program,
    called_name,
    called_names,
    root_of,
    value_given,
)
from perftui.script.training import trains, trains_each_turn
from perftui.script.uses import Use, kind_of, reads_given

_MOST = 200
"""Expressions that are followed: a live run is judged every second."""
_DEEPEST = 4
"""Most functions between a line and the statement whose result is not read."""

NEVER, RARE, LAST, READ = range(4)
_HOW = "never", "rare", "last"
"""How a result is read, what counts for less first."""

Reading = tuple[int, int]
"""How, and the line that reads it last or decides that it is read."""
_NEVER, _READ = (NEVER, 0), (READ, 0)

_ANY = "*"
"""Any element, by an index or in a loop."""
_Path = tuple[int | str, ...]
"""Where in a value the result is: indices and keys, outermost first."""

_COMPUTES = re.compile(
    r"^(numpy|torch|scipy|cv2|math|statistics|skimage|sklearn\.metrics|librosa|torchaudio|einops"
    r"|torchvision|pandas|itertools|json|copy|PIL|operator|re)\."
)
_TOUCHES = re.compile(
    r"open|write|mk|make_?dir|rm|un(link|wrap)|re(name|set|port)|touch|close|flush|fsync|sync"
    r"|barrier|wait|add_|set_|seed|exec|(eval|get)$|collect|save|print|log(_|$)|plot|show"
)
"""Functions that act on files, other processes or objects."""
_KEEPING = re.compile(r"hook|BatchNorm")
"""Modules of a file with such calls may keep what passes through them."""
_CHOOSES = frozenset({"topk", "argmax", "multinomial"})
_MASKS = re.compile(r"mask|scatter|one_hot|where|gather")
_HANDED_ON = frozenset({"Subset", "ConcatDataset", "tqdm", "iter", "list", "prepare", "DataLoader"})
"""Functions and classes whose results have the elements of their first argument."""
_ADDS = frozenset({"append", "appendleft", "add"})
_NEW = re.compile(r"\[\]|list\(\)|(collections\.)?deque\(.*\)")
"""A list that has no other name."""
_EACH_TIME = re.compile(r"__(getitem|getitems|iter|next|call)__|forward|collate\w*|training_step")
_EVERY = re.compile(r"%.*==|== *\(?0\b.*%|^not .*%")


class Unread(NamedTuple):
    """What is computed for nobody."""

    use: Use
    """``unread.never``, ``unread.rare``, ``unread.last`` or ``unread.masked``: the expression, of
    the line that reads it or decides that, and what it is given to."""
    calls: int
    """Statements of the file that run the line, this one among them."""


@lru_cache(64)
def unread_at(program: Program, line: int) -> Unread | None:
    """What the line, or a statement that calls the function around it, computes for nobody."""
    simple = (node for node in program.statements() if not hasattr(node, "body"))
    at = {node: None for node in simple if node.lineno <= line <= (node.end_lineno or 0)}
    for _ in range(_DEEPEST):
        for statement in at:
            if use := _unread(program, statement) or _masked(program, statement):
                return Unread(use, len(at))
        functions = [node for node in map(program.function, at) if node]
        calls = (call for function in functions for call in program.callers.get(function, []))
        at = dict.fromkeys(map(program.statement, calls))
    return None


def _unread(program: Program, statement: ast.stmt) -> Use | None:
    """A result of ``statement``, if it only computes that, each time that a sample or a step is
    made, and it is not always read."""
    to: ast.expr | None = None
    values: list[ast.expr | None] = []
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(to, name), [value])) if name in _ADDS:
            # What a list is given counts, and not that it is given something.
            values = [value]
        case (
            ast.Assign([to, *_], value) | ast.AnnAssign(to, _, value) | ast.AugAssign(to, _, value)
        ):
            values = [value]
        case ast.Return(ast.Tuple() | ast.Dict() as value):
            pass
        case _:
            return None
    if isinstance(value, (ast.Tuple, ast.Dict)):
        values = [*(value.elts if isinstance(value, ast.Tuple) else value.values)]
    is_meant = isinstance(to, ast.Name) and to.id.startswith("_")
    if is_meant or not _recurs(program, statement):
        return None
    for part in filter(None, values):
        is_work = any(isinstance(node, (ast.Call, ast.BinOp)) for node in ast.walk(part))
        how, where = _Readers(program).of(part, ()) if is_work else _READ
        if how != READ and _is_free(program, part):
            return Use(f"unread.{_HOW[how]}", part, ast.Constant(where), to, program)
    return None


def _masked(program: Program, statement: ast.stmt) -> Use | None:
    """Modules that are all given the same, where a line above has chosen some of them for each
    element and what the others give is masked."""
    function = program.function(statement)
    if function is None or not _recurs(program, statement):
        return None
    calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
    above = (call for call in calls if call.lineno < statement.lineno)
    chosen = next((call.lineno for call in above if called_name(call) in _CHOOSES), 0)
    is_masked = chosen and _MASKS.search(ast.unparse(function))
    for part in ast.walk(statement) if is_masked else ():
        match part:
            case ast.ListComp(
                ast.Call(ast.Name(module), [ast.Name(given)]),
                [ast.comprehension(ast.Name(each), ast.Attribute() as whole, [])],
            ) if each == module != given:
                return Use("unread.masked", part, ast.Constant(chosen), whole, program)
    return None


def _recurs(program: Program, node: ast.AST, deep: int = _DEEPEST) -> bool:
    """Whether each sample or step runs ``node``, as far as the file shows."""
    function = program.function(node)
    is_step = any(trains(program, loop) for loop in program.loops(node))
    if is_step or function is None or not deep:
        return is_step
    is_step = bool(_EACH_TIME.fullmatch(function.name)) or trains_each_turn(program, function)
    calls = program.callers.get(function, [])
    return is_step or any(_recurs(program, call, deep - 1) for call in calls)


def _is_free(program: Program, node: ast.AST, deep: int = _DEEPEST) -> bool:
    """Whether computing ``node`` has no effect but its result."""
    for part in ast.walk(node):
        if isinstance(part, (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)):
            return False
        if isinstance(part, ast.Call) and not _is_free_call(program, part, deep):
            return False
        target = part.target if isinstance(part, ast.AugAssign) else part
        if isinstance(target, (ast.Name, ast.Attribute, ast.Subscript)):
            root = root_of(target)
            made = bindings_of(program, root) if isinstance(root, ast.Name) else []
            is_own = made and not any(isinstance(binding, ast.arg) for binding in made)
            is_set = target is not part or not isinstance(target, ast.Name)
            if is_set and not isinstance(target.ctx, ast.Load) and not is_own:
                return False
    return True


def _is_free_call(program: Program, call: ast.Call, deep: int = _DEEPEST) -> bool:
    if own := program.own_functions(call):
        bodies = (statement for function in own for statement in function.body)
        return deep > 0 and all(_is_free(program, body, deep - 1) for body in bodies)
    name, qualified = called_name(call), qualified_name(program, call.func) or ""
    is_in_place = any(word.arg in ("out", "inplace") for word in call.keywords)
    if is_in_place or may_change(name) or _TOUCHES.match(name):
        return False
    if CHANGING.match(qualified):
        return HARMLESS_EXCEPTIONS.match(qualified) is not None
    if kind_of(program, call.func).startswith("torch.nn."):
        return not any(map(_KEEPING.search, called_names(program.tree)))
    return name in PURE or _COMPUTES.match(qualified) is not None


class _Readers:
    """Follows a value to what reads it, each expression once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[tuple[ast.AST, _Path]] = set()

    def of_statement(self, statement: ast.stmt, path: _Path) -> Reading:
        """Of the value of ``statement``."""
        match statement:
            case ast.Return():
                return self._returned(statement, path)
            case ast.Expr(ast.Yield()):
                return self._returned(statement, (_ANY, *path))
            case ast.Assign(targets, value):
                # Whoever keeps a result under a condition, as of the best model, means to have it.
                is_kept = isinstance(self.program.parents[statement], ast.If)
                if is_kept and (path or isinstance(value, ast.Name)):
                    return _READ
                return max(self._target(target, path, statement) for target in targets)
            case ast.AnnAssign(target) | ast.AugAssign(target):
                return self._target(target, path, statement)
        return _READ

    def _target(self, target: ast.expr, path: _Path, made: ast.AST) -> Reading:
        """Of what a target of the statement, loop or comprehension ``made`` is given."""
        match target:
            case ast.Name() if isinstance(made, ast.stmt) and not isinstance(made, Loop):
                own = {getattr(node, "id", "") for node in ast.walk(getattr(made, "value", made))}
                reads = later_reads(self.program, made, target.id)
                return _READ if target.id in own else self._all(reads, path, made)
            case ast.Name():
                loads = self.program.loads(target.id)
                reads = (load for load in loads if target in bindings_of(self.program, load))
                return self._all(reads, path)
            case ast.Tuple(parts) | ast.List(parts):
                at = path[0] if path else _ANY
                chosen = parts[at : at + 1] if isinstance(at, int) else parts
                if any(isinstance(part, ast.Starred) for part in parts) or not chosen:
                    return _READ
                return max(self._target(part, path[1:], made) for part in chosen)
            case ast.Attribute(ast.Name("self")) if not isinstance(made, ast.AugAssign):
                if not self.program.calls("getattr", "vars", "hasattr"):
                    return self._all(self.program.attributes(target.attr, ast.Load), path)
        return _READ

    def _all(self, reads: Iterable[ast.expr], path: _Path, made: ast.stmt | None = None) -> Reading:
        """Of all ``reads`` of what ``made`` gives: the one that uses most counts."""
        most = _NEVER
        for read in reads:
            # In a loop, what is read before it is given is what the turn before gave.
            is_carried = made is not None and read.lineno <= (made.end_lineno or 0)
            how = _READ if is_carried else self.of(read, path)
            if how == _READ and made and not is_carried:
                how = self._when(read, made)
            most = max(most, how)
            if most == _READ:
                break
        return most

    def _when(self, read: ast.expr, made: ast.stmt) -> Reading:
        """Whether ``read`` only has the last result of a loop, or one of many."""
        loop = next(self.program.loops(made), None)
        if loop is None or isinstance(made, ast.AugAssign):
            return _READ
        around, inner = set(self.program.ancestors(made)), ast.AST()
        for above in self.program.ancestors(read):
            if above in around or isinstance(above, FUNCTIONS):
                break
            is_under = isinstance(above, ast.If) and inner in above.body
            if is_under and _EVERY.search(ast.unparse(above.test)):  # type: ignore[attr-defined]
                return RARE, above.lineno  # type: ignore[attr-defined]
            inner = above
        ends = any(isinstance(node, (ast.Break, ast.Return)) for node in ast.walk(loop))
        is_last = self.program.parents[made] is loop and loop not in self.program.ancestors(read)
        return (LAST, read.lineno) if is_last and not ends else _READ

    def of(self, node: ast.expr, path: _Path) -> Reading:  # noqa: C901 - a table
        """Of the value at ``path`` in the expression ``node``."""
        above = self.program.parents[node]
        if isinstance(above, ast.keyword):
            above = self.program.parents[above]
        if len(self.seen) > _MOST or len(path) > _DEEPEST:
            return _READ
        if (node, path) in self.seen:
            return _NEVER
        self.seen.add((node, path))
        match above:
            case ast.Call(func) if node is not func:
                return self._given(above, node, path)
            case ast.Attribute(ctx=ast.Load()):
                return self._attribute(above, path)
            case ast.Subscript(value, index, ast.Load()) if value is node and path[:1] != (_ANY,):
                if path and not isinstance(index, ast.Constant):
                    return _READ
                is_it = not path or index.value == path[0]  # type: ignore[attr-defined] # a constant
                return self.of(above, path[1:]) if is_it else _NEVER
            case ast.Subscript(value, _, ast.Load()) if value is node:
                return self.of(above, path[1:])
            case ast.Tuple(parts, ast.Load()) | ast.List(parts, ast.Load()):
                return self.of(above, (parts.index(node), *path))
            case ast.Dict(keys, values) if node in values:
                match keys[values.index(node)]:
                    case ast.Constant(str(key)):
                        return self.of(above, (key, *path))
            case ast.For(target, of) | ast.comprehension(target, of) if of is node and path:
                return self._target(target, path[1:], above)
            case ast.ListComp() | ast.GeneratorExp():
                return self.of(above, (_ANY, *path))
            case ast.AugAssign() | ast.Assign() | ast.AnnAssign() | ast.Return():
                return self.of_statement(above, path)
            case (
                ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.FormattedValue() | ast.JoinedStr()
            ):
                return _READ if path else self.of(above, ())
            case ast.Subscript(ctx=ast.Load()) | ast.Yield():
                return self.of(above, path)
            case ast.Expr(ast.Yield()):
                return self.of_statement(above, path)
        return _READ

    def _attribute(self, node: ast.Attribute, path: _Path) -> Reading:
        """Of the object of an attribute or a method."""
        call = self.program.parents[node]
        if isinstance(call, ast.Call) and call.func is node:
            if node.attr in _ADDS and isinstance(node.value, (ast.Name, ast.Attribute)):
                return _NEVER
            is_free = not path and _is_free_call(self.program, call)
            return self.of(call, ()) if is_free else _READ
        if path[:1] == (_ANY,):
            return self.of(node, path) if node.attr == "dataset" else _NEVER
        return _READ if path else self.of(node, ())

    def _given(self, call: ast.Call, node: ast.expr, path: _Path) -> Reading:
        """Of an argument of ``call``."""
        name = called_name(call)
        is_loaded = path[:1] == (_ANY,)
        if name in _ADDS and isinstance(call.func, ast.Attribute):
            return self._added(call, call.func.value, (_ANY, *path))
        if is_loaded and name in _HANDED_ON and "collate_fn" not in ast.unparse(call):
            return self.of(call, path)
        if is_loaded and name in ("enumerate", "next"):
            return self.of(call, (_ANY, 1, *path[1:]) if name == "enumerate" else path[1:])
        if name in ("len", "isinstance") and path:
            return _NEVER
        if _is_free_call(self.program, call):
            return self.of(call, ())
        reads = reads_given(self.program, call, node)
        return _READ if reads is None else self._all(reads, path)

    def _added(self, call: ast.Call, to: ast.expr, path: _Path) -> Reading:
        """Of what is added to a list: only its last element may be read, after the loop."""
        stored = self.program.attributes(getattr(to, "attr", ""), ast.Store)
        made = bindings_of(self.program, to) if isinstance(to, ast.Name) else [*stored]
        values = [value_given(self.program, target) for target in made]
        if not made or not all(value and _NEW.fullmatch(ast.unparse(value)) for value in values):
            return _READ
        if isinstance(to, ast.Attribute):
            return self._target(to, path, call)
        loop, most = next(self.program.loops(call), None), _NEVER
        for read in self.program.loads(getattr(to, "id", "")):
            is_last = ast.unparse(self.program.parents[read]) == f"{read.id}[-1]"
            is_after = loop is not None and loop not in self.program.ancestors(read)
            how = (LAST, read.lineno) if is_last and is_after else self.of(read, path)
            most = max(most, how if bindings_of(self.program, read) == made else _NEVER)
        return most

    def _returned(self, statement: ast.stmt, path: _Path) -> Reading:
        """Of what a function returns or yields."""
        function = self.program.function(statement)
        owner = self.program.parents[function] if function else None
        if function is None:
            return _READ
        calls: list[ast.Call] | None = calls_of(self.program, function)
        if isinstance(owner, ast.ClassDef):
            made = as_calls(self.program, self.program.loads(owner.name))
            if function.name in ("__getitem__", "__iter__"):
                calls, path = made, (_ANY, *path) if function.name == "__getitem__" else path
            elif function.name in ("forward", "__call__"):
                is_named = all(map(self._is_named, made or ()))
                calls = self.program.callers.get(function, []) if made and is_named else None
        return self._all(calls, path) if calls else _READ

    def _is_named(self, made: ast.Call) -> bool:
        """Whether an object is called by a name, as one in a list is not."""
        above = self.program.parents[made]
        is_given = isinstance(above, ast.Call) and bool(self.program.own_functions(above))
        return isinstance(above, (ast.Assign, ast.Attribute)) or is_given
