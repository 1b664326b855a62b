"""Find, by text, what in the user's own source calls an operator, or the model again.

Samples show more, if there are enough of them. A place is only named if it is the only one that
fits.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from perftui.facts.fact import Facts, fact, notes_of
from perftui.facts.source.lines import LineShare, main_thread, stack_samples
from perftui.run.files import read_regular
from perftui.script.program import Function, tree_of
from perftui.script.same_input import second_calls

_T = TypeVar("_T")

MOST_FILES = 8

LARGEST = 1 << 18
"""Largest file read, in bytes: some 6000 lines, which Python parses in 0.1 s, once."""


def matching_line(facts: Facts, pattern: str, *, only: bool = False) -> LineShare | None:
    """The first line that matches ``pattern``, outside comments and docstrings: in the script, then
    in files named by stack samples. None if none matches, if several do with ``only``, or if the
    files changed since the run began."""
    lines = in_own_files(facts, lambda path, changed: matching_lines(path, changed, pattern))
    return None if not lines or (only and len(lines) > 1) else LineShare(*lines[0])


def in_own_files(facts: Facts, read: Callable[[Path, int], Iterable[_T]]) -> list[tuple[str, _T]]:
    """Results of ``read`` for each of the user's files, each with the file's name."""
    return [(str(path), item) for path, changed in own_files(facts) for item in read(path, changed)]


@fact
def own_files(facts: Facts) -> tuple[tuple[Path, int], ...]:
    """The user's source files unchanged since the run began, with mtime in ns: the script, then
    files named by samples, then modules imported from its directory. Empty for a trace alone."""
    manifest = facts.manifest
    if manifest is None:
        return ()
    result = []
    # A script is named as it was launched, samples have its absolute path.
    files = [Path(manifest.cwd) / file for file in _files(facts)]
    files += _imported(files[0]) if files else []
    for path in list(dict.fromkeys(files))[:MOST_FILES]:
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_size <= LARGEST and status.st_mtime_ns <= manifest.started_ns:
            result.append((path, status.st_mtime_ns))
    return tuple(result)


def _imported(script: Path) -> list[Path]:
    """Modules in the directory of ``script`` that it imports, in that order."""
    try:
        tree = tree_of(script, script.stat().st_mtime_ns)
    except OSError:
        return []
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module and node.level < 2:
            names[node.module] = None
    files = (script.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names)
    return [file for file in files if file.is_file()]


def _files(facts: Facts) -> list[str]:
    scripts = (note.get("argv0") for note in notes_of(facts.events, "process"))
    names = dict.fromkeys(str(script) for script in scripts if script)
    for stacks in stack_samples(facts):
        if "file" in stacks:
            names.update(dict.fromkeys(file for file in stacks["file"].tolist() if file))
    return list(names)


@lru_cache(128)
def matching_lines(path: Path, changed: int, pattern: str) -> tuple[int, ...]:
    """Lines of a file that match ``pattern``, outside comments and docstrings."""
    try:
        text = read_regular(path).decode("utf-8", "replace")
    except OSError:
        return ()
    matches, lines = re.compile(pattern).search, enumerate(text.splitlines(), 1)
    numbers = [number for number, line in lines if matches(line.partition("#")[0])]
    documented = _docstrings(path, changed) if numbers else set()
    return tuple(number for number in numbers if number not in documented)


def _docstrings(path: Path, changed: int) -> set[int]:
    """Lines of docstrings and other strings that are statements."""
    values = (node.value for node in ast.walk(tree_of(path, changed)) if isinstance(node, ast.Expr))
    alone = (value for value in values if isinstance(value, ast.Constant))
    return {line for text in alone for line in range(text.lineno, (text.end_lineno or 0) + 1)}


FITS = 0.5
"""Share of a turn's operators that a loop's text must call to be that loop."""

FEWEST_NAMES = 2
"""Fewest operators of a turn that a loop's text must call, except in loops over parameters: a
single one may be in any loop."""

_WEIGHTS = re.compile(r"param|grad|weight|state_dict|buffers")

_LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)

_BY_SYNTAX: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("add",),
    ast.Sub: ("sub", "rsub"),
    ast.Mult: ("mul",),
    ast.Div: ("div", "reciprocal"),
    ast.Pow: ("pow",),
    ast.MatMult: ("matmul",),
    ast.USub: ("neg",),
    ast.Eq: ("eq",),
    ast.NotEq: ("ne",),
    ast.Lt: ("lt", "gt"),
    ast.LtE: ("le", "ge"),
    ast.Gt: ("gt", "lt"),
    ast.GtE: ("ge", "le"),
    ast.Or: ("is_nonzero", "item"),
    ast.And: ("is_nonzero", "item"),
    ast.If: ("is_nonzero", "item"),
    ast.Subscript: ("select", "slice", "index", "narrow"),
}
"""Operators of torch that Python's own syntax calls."""

_PREFIXES = ("linalg_", "native_", "special_", "fft_")


@dataclass(frozen=True)
class _Loop:
    """An innermost loop."""

    line: int
    calls: frozenset[str]
    """Names of operators that its text may call in each turn."""
    indexes: bool
    """Whether the loop indexes something by its loop variable."""
    over_weights: bool
    """Whether the loop goes over parameters, gradients or the like, judged by their names."""


def call_of(facts: Facts, operator: str) -> LineShare | None:
    """The only line that calls ``operator`` (``aten::topk``) by name; None if there are several or
    none."""
    name = _name_of(operator)
    calls = in_own_files(facts, _calls)
    return only_line((file, line) for file, (called, line) in calls if called == name)


def loop_of(facts: Facts, operators: Sequence[str], *, pieces: bool = False) -> LineShare | None:
    """The innermost loop whose text calls most of ``operators``, at least half; None on a tie or
    without one. ``pieces`` restricts it to loops that index by their loop variable."""
    wanted = {_name_of(operator) for operator in operators}
    fits = {
        (file, loop.line): len(wanted & loop.calls)
        for file, loop in in_own_files(facts, _loops)
        if (loop.indexes or not pieces)
        and len(wanted & loop.calls) >= (1 if loop.over_weights else FEWEST_NAMES)
    }
    most = max(fits.values(), default=0)
    is_that = most >= FITS * len(wanted)
    return only_line(place for place, fit in fits.items() if fit == most) if is_that else None


def call_repeated(facts: Facts) -> LineShare | None:
    """In the function that runs backward, the second of two calls with the same arguments, or the
    first after backward; None if several are repeated, or none is."""
    return only_line(in_own_files(facts, _repeated))


def same_call(facts: Facts) -> LineShare | None:
    """The second of two calls of a module (or its method) with the same input before one backward
    pass; None without one, or if it is also called with other input: two views of a batch through
    one encoder are no repetition."""
    return only_line(second_calls(own_files(facts)))


def only_line(places: Iterable[tuple[str, int]]) -> LineShare | None:
    """The line at the only one of ``places`` (file, number); None if there is not exactly one."""
    lines = set(places)
    return LineShare(*lines.pop()) if len(lines) == 1 else None


def _name_of(operator: str) -> str:
    """How Python calls an operator: ``aten::linalg_svdvals`` is called as ``svdvals``."""
    name = operator.removeprefix("aten::").strip("_")
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return "norm" if name == "vector_norm" else name


@lru_cache(maxsize=64)
def _calls(path: Path, changed: int) -> tuple[tuple[str, int], ...]:
    calls = (node for node in ast.walk(tree_of(path, changed)) if isinstance(node, ast.Call))
    return tuple((called(node), node.lineno) for node in calls)


@lru_cache(maxsize=64)
def _loops(path: Path, changed: int) -> tuple[_Loop, ...]:
    loops = []
    for node in ast.walk(tree_of(path, changed)):
        if isinstance(node, _LOOPS):
            inside = list(_turn(node))
            names = frozenset(name for part in inside for name in _names(part))
            if "backward" not in names and not any(isinstance(part, _LOOPS) for part in inside):
                over = " ".join(map(ast.unparse, _over(node)))
                is_over = _WEIGHTS.search(over) is not None
                loops.append(_Loop(node.lineno, names, _indexes(node, inside), is_over))
    return tuple(loops)


@lru_cache(maxsize=64)
def _repeated(path: Path, changed: int) -> tuple[int, ...]:
    tree = tree_of(path, changed)
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, _SCOPES))]
    return tuple(line for scope in scopes for line in _repeated_in(scope))


def _repeated_in(scope: ast.AST) -> Iterator[int]:
    calls = sorted(
        (node for node in _own(scope) if isinstance(node, ast.Call)),
        key=lambda node: (node.lineno, node.col_offset),
    )
    back = [node for node in calls if called(node) == "backward"]
    if len(back) != 1:
        return
    loss, line = ast.unparse(back[0].func).removesuffix(".backward"), back[0].lineno
    alike: dict[str, list[int]] = {}
    for node in calls:
        if _may_be_model(node) and loss not in map(ast.unparse, node.args):
            alike.setdefault(ast.unparse(node), []).append(node.lineno)
    for lines in alike.values():
        if len(lines) > 1 and lines[0] < line:
            yield next((later for later in lines if later > line), lines[1])


def _may_be_model(call: ast.Call) -> bool:
    """Whether ``call`` is of a name, or an attribute of ``self``, with only variable arguments."""
    function, arguments = call.func, call.args
    of_self = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    is_name = isinstance(function, ast.Name) and not hasattr(builtins, function.id)
    is_own = is_name or (of_self and ast.unparse(function).startswith("self."))
    plain = (ast.Name, ast.Attribute, ast.Subscript, ast.Starred)
    return is_own and bool(arguments) and all(isinstance(argument, plain) for argument in arguments)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Nodes of ``scope`` without those of functions and classes defined in it."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if not isinstance(node, _SCOPES):
            yield node
            waiting += ast.iter_child_nodes(node)


def called(call: ast.Call) -> str:
    """Name of the called function or method, without leading and trailing underscores."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return str(name).strip("_")


def _names(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Call):
        return (called(node),)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return ("select", "slice", "index_put", "copy", "fill")
    return _BY_SYNTAX.get(type(node), ())


def _turn(loop: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run in each turn of ``loop``."""
    for name in ("body", "elt", "key", "value"):
        part = getattr(loop, name, None) or []
        for item in part if isinstance(part, list) else [part]:
            yield from ast.walk(item)


def _over(loop: ast.AST) -> list[ast.expr]:
    """What ``loop`` iterates over."""
    return [head.iter for head in (*getattr(loop, "generators", []), loop) if hasattr(head, "iter")]


def _indexes(loop: ast.AST, inside: Sequence[ast.AST]) -> bool:
    heads = (*getattr(loop, "generators", []), loop)
    targets = [head.target for head in heads if hasattr(head, "target")]
    bound = {node.id for left in targets for node in ast.walk(left) if isinstance(node, ast.Name)}
    return any(
        isinstance(node, ast.Subscript)
        and any(isinstance(name, ast.Name) and name.id in bound for name in ast.walk(node.slice))
        for node in inside
    )


_OF_TORCH = {"detach", "item", "tolist", "numpy", "no_grad", "zeros", "zeros_like"}
_WITHOUT_GRAPH = _OF_TORCH | {"float", "int", "len", "str", "format"}
"""Calls whose result has no autograd graph."""

_KEEPERS = frozenset({"append", "appendleft", "add", "extend"})


def line_that_keeps_graph(facts: Facts) -> LineShare | None:
    """The only line of a loop around backward, or of a module, that updates a variable from itself,
    or appends a computed value, without detaching; None if there are several or none."""
    return only_line(in_own_files(facts, _lines))


@lru_cache(maxsize=64)
def _lines(path: Path, changed: int) -> tuple[int, ...]:
    lines: list[int] = []
    for node in ast.walk(tree_of(path, changed)):
        if isinstance(node, (ast.For, ast.While)) and _runs_backward(node):
            lines += _carried(node)
        elif isinstance(node, Function) and not node.name.startswith("__"):
            below = (sub for sub in ast.walk(node) if isinstance(sub, (ast.Assign, ast.AugAssign)))
            lines += [sub.lineno for sub in below if _is_state(sub)]
    return tuple(lines)


def _runs_backward(loop: ast.For | ast.While) -> bool:
    """Whether ``loop`` is the innermost loop around a backward pass."""
    inside = [node for statement in loop.body for node in ast.walk(statement)]
    inner = (node for node in inside if isinstance(node, (ast.For, ast.While)))
    return _calls_backward(inside) and not any(
        _calls_backward(list(ast.walk(loop))) for loop in inner
    )


def _calls_backward(nodes: list[ast.AST]) -> bool:
    return any(isinstance(node, ast.Call) and called(node) == "backward" for node in nodes)


def _carried(loop: ast.For | ast.While) -> Iterator[int]:
    """Lines that update a variable from its value of the previous turn."""
    fresh = _variables(loop.target) if isinstance(loop, ast.For) else set()
    computed: set[str] = set()
    for node in _in_order(loop.body):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            own, read = _targets(node), _read(node)
            computes = _computes(node.value)
            if own & read - fresh and (computes or read & computed) and not _cuts(node.value):
                yield node.lineno
            fresh |= own
            computed |= own if computes else set()
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if called(call) in _KEEPERS and call.args and not _cuts(call):
                yield from [node.lineno] if _variables(call.args[0]) & computed else []


def _is_state(node: ast.Assign | ast.AugAssign) -> bool:
    """Whether it makes an attribute of ``self`` from itself and something else."""
    own = {name for name in _targets(node) if name.startswith("self.")}
    return bool(own & _read(node)) and _computes(node.value) and not _cuts(node.value)


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in the order of the text, without those of functions and blocks without graphs."""
    for statement in body:
        if isinstance(statement, (Function, ast.ClassDef)):
            continue
        if isinstance(statement, ast.With) and any(
            _cuts(item.context_expr) for item in statement.items
        ):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _in_order(getattr(statement, name, []))


def _targets(node: ast.Assign | ast.AugAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {name for target in targets for name in _variables(target)}


def _read(node: ast.Assign | ast.AugAssign) -> set[str]:
    own = _targets(node) if isinstance(node, ast.AugAssign) else set()
    return _variables(node.value) | own


def _variables(node: ast.AST) -> set[str]:
    """Variables and attributes, as written."""
    plain = (part for part in ast.walk(node) if isinstance(part, (ast.Name, ast.Attribute)))
    return {ast.unparse(part) for part in plain}


def _computes(node: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


def _cuts(node: ast.AST) -> bool:
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(called(call) in _WITHOUT_GRAPH for call in calls)


_OFF = ("no_grad", "inference_mode")


def line_without_gradients(facts: Facts) -> LineShare | None:
    """A line of a loop under ``no_grad`` or ``inference_mode``: the one with most main-thread time,
    else the loop, if it is the only one. None if unknown."""
    loops = in_own_files(facts, _loops_without_gradients)
    thread = main_thread.or_none(facts)
    for line in thread.lines if thread else ():
        if any(line.file == file and first <= line.line <= last for file, (first, last) in loops):
            return line
    return only_line((file, first) for file, (first, _) in loops)


@lru_cache(maxsize=64)
def _loops_without_gradients(path: Path, changed: int) -> tuple[tuple[int, int], ...]:
    """First and last lines of the outermost loops that call a model without gradients."""
    return tuple(
        (loop.lineno, loop.end_lineno or loop.lineno)
        for node in ast.walk(tree_of(path, changed))
        if _is_off(node)
        for loop in _outermost(node)
        if _calls_model(loop)
    )


def _is_off(node: ast.AST) -> bool:
    """Whether gradients are off in a function or a ``with`` block."""
    parts: Sequence[ast.AST] = ()
    if isinstance(node, Function):
        parts = node.decorator_list
    elif isinstance(node, ast.With):
        parts = node.items
    return any(name in ast.unparse(part) for part in parts for name in _OFF)


def _calls_model(loop: ast.AST) -> bool:
    """Whether the loop calls a variable, or an attribute of ``self``, with arguments."""
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call) and node.args)
    return any(
        ast.unparse(call.func).startswith("self.")
        if isinstance(call.func, ast.Attribute)
        else isinstance(call.func, ast.Name) and not hasattr(builtins, call.func.id)
        for call in calls
    )


def _outermost(node: ast.AST) -> Iterator[ast.For | ast.While]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.For | ast.While):
            yield child
        else:
            yield from _outermost(child)
