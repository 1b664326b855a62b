"""Work of a line that makes samples and need not be done there, by what the file does with it:
most of the result is thrown away."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile

from perftui.script.effects import reached
from perftui.script.names import bindings_of, function_of, later_reads, names_bound
from perftui.script.program import (
    COMPREHENSIONS,
    FUNCTIONS,
    Function,
    Loop,
    PatchRefusedError,
    Program,
    called_name,
)
from perftui.script.training import statement_at
from perftui.script.uses import Use, kind_of, reads_given

_MOST = 40
"""Expressions that are followed: a live run is judged every second."""

_LOOKED_AT = frozenset({"len", "isinstance", "print", "shape", "size", "ndim", "dtype", "numel"})
"""Functions and attributes that need nothing of a value's contents."""

_GATHERS = frozenset({"stack", "array", "asarray", "cat", "concatenate", "list", "tuple"})
"""Functions whose results have the elements of what they are given, in its order."""

_CHOOSES = re.compile(
    r"\b(linspace|sample|choices?|randint|integers|randrange)\(|range\(.*,.*,"
    r"|^[^:0({][^:({]*:[^:-][^:]*$|::(?!-?1$)\w"
)
"""Calls and slices that choose a few of many."""

_WINDOW = re.compile(r"[a-z_)\]]\w*:[\w(]|slice\((?!None|\d)")
"""Slices from a place that differs to another."""

_OF_WHOLE = re.compile(
    r"(?i)(resiz|scal|interpol|rotat|affine|warp|zoom|perspect|elastic|\bpad|norm|mean|std|median"
    r"|sum|min|max|quantile|percentile|equaliz|autocontrast|fft|cum|sort|open|load|read|decode"
    r"|conv|transform|filt|blur|encod|model|process|compose|pipeline)\w*\("
)
"""Functions whose result at one place needs more than what lies around it."""

_OF_WORKER = re.compile(r"% [\w.]+\)? [!=]= [a-z]|^[a-z][\w.]* [!=]= [\w.() +-]+ % [a-z]")
_WORKER = re.compile(r"worker|rank|shard|world|replica")
"""A remainder compared with a number, and what says that it is the worker's own."""

FEW, PART, SHARE, USED = "few", "part", "share", ""

Cut = tuple[str, ast.expr]
"""How a value is cut down, and by what."""

_ALL: Cut = USED, ast.Constant(None)


@lru_cache(64)
def cut_at(program: Program, line: int, workers: int) -> tuple[Use, ...]:
    """What cuts down the result of ``line``: ``cut.few``, ``cut.part`` or ``cut.share``."""
    here = [n for n in program.nodes if isinstance(n, ast.expr) and n.lineno <= line]
    here = [n for n in here if line <= (n.end_lineno or 0) and program.function(n)]
    if not here:
        return ()
    statement = program.statement(here[-1])
    whole = ast.unparse(getattr(statement, "iter", statement))
    # An element of a list or array costs nothing, and is most often a view.
    is_lookup = isinstance(getattr(statement, "value", None), ast.Subscript)
    kind = USED if is_lookup or _OF_WHOLE.search(whole) else PART
    kind, by = _Reads(program).of_statement(statement, kind) or _ALL
    is_none = kind == USED or (kind == SHARE and (workers < 2 or "(" not in whole))
    return () if is_none else (Use(f"cut.{kind}", by, None, by, program),)


@lru_cache(64)
def search_at(program: Program, line: int) -> tuple[Use, ...]:
    """``search.kept``: the loop through all that an object keeps, to find what fits, of which each
    turn runs the line, or calls the function around it."""
    try:
        here = statement_at(program, line)
    except PatchRefusedError:
        return ()
    function = program.function(here)
    for node in (here, *(program.callers.get(function, ()) if function else ())):
        around = (node, *takewhile(lambda n: not isinstance(n, FUNCTIONS), program.ancestors(node)))
        loop = next((above for above in around if isinstance(above, Loop)), None)
        inside = around[: around.index(loop)] if loop else ()
        # What runs once it is found is no part of the search.
        found = any(isinstance(at, (ast.Return, ast.Break, *COMPREHENSIONS)) for at in inside)
        if isinstance(loop, ast.For) and _is_search(loop) and not found:
            return (Use("search.kept", loop.iter, loop.iter, None, program),)
    return ()


@lru_cache(64)
def fetched_at(program: Program, line: int) -> tuple[Use, ...]:
    """``fetch.twice``: the dataset that a sampler reads each time it begins anew, for samples that
    ``line`` takes part in making."""
    for function in program.functions.get("__iter__", ()):
        bases = getattr(program.owner(function), "bases", ())
        nodes = reached(program, function) if "Sampler" in " ".join(map(ast.unparse, bases)) else ()
        for node, _ in nodes:
            whole = node.value if isinstance(node, ast.Subscript) else getattr(node, "iter", None)
            kind = kind_of(program, whole)
            items = program.functions.get("__getitem__", ())
            items = [item for item in items if getattr(program.owner(item), "name", "") == kind]
            parts = (part for item in items for part, _ in reached(program, item))
            if whole and any(getattr(part, "lineno", 0) == line for part in parts):
                return (Use("fetch.twice", whole, whole, None, program),)
    return ()


def _is_search(loop: ast.For) -> bool:
    """Whether the loop compares what an object keeps with something else until it fits."""
    own = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    for node in loop.body if "self." in ast.unparse(loop.iter) else ():
        tests = [part for part in ast.walk(node) if isinstance(part, ast.Compare)]
        if isinstance(node, ast.If) and tests:
            called = {
                ast.unparse(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)
            }
            names = {part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)}
            ends = any(isinstance(part, (ast.Return, ast.Break)) for part in ast.walk(node))
            if ends and names & own and names - own - called - {"self"}:
                return True
    return False


class _Reads:
    """What reads a value, each expression once; None stands for reads of its size alone."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.seen: set[tuple[ast.AST, ast.AST]] = set()

    def of_statement(self, statement: ast.stmt, kind: str) -> Cut | None:
        """Of what ``statement`` gives names, adds to a list, returns or yields."""
        value = getattr(statement, "value", None)
        kind = FEW if isinstance(value, COMPREHENSIONS) else kind
        if isinstance(statement, ast.Return) or isinstance(value, ast.Yield):
            function = self.program.function(statement)
            if function is None or _is_item(function):
                return _ALL
            return self._all(self.program.callers.get(function, []), kind, None)
        sources = dict.fromkeys(names_bound(self.program, statement), statement)
        match statement:
            case ast.Expr(ast.Call(ast.Attribute(ast.Name() as to, "append"))):
                made = bindings_of(self.program, to)
                sources, kind = {to.id: self.program.statement(made[0])} if made else {}, FEW
        reads = (r for name, at in sources.items() for r in later_reads(self.program, at, name))
        below = [read for read in reads if read.lineno > (statement.end_lineno or 0)]
        return self._all(below, kind, statement)

    def _all(self, reads: Iterable[ast.expr], kind: str, made: ast.stmt | None) -> Cut | None:
        """Of all ``reads`` of what ``made`` makes: the one that uses most counts."""
        cuts = []
        for read in reads:
            cuts.append((made and self._share(read, made)) or self.of(read, kind))
            if cuts[-1] == _ALL:
                break
        # Several windows may be all of it.
        windows = {ast.unparse(getattr(cut[1], "slice", cut[1])) for cut in cuts if cut}
        if not cuts or (kind == PART and len(windows) > 1):
            return _ALL
        return min(filter(None, cuts), default=None, key=lambda cut: cut[0])

    def _share(self, read: ast.expr, made: ast.stmt) -> Cut | None:
        """The condition on a worker's number under which ``read`` runs, but not ``made``."""
        around = set(self.program.ancestors(read)).difference(self.program.ancestors(made))
        loop = getattr(next(self.program.loops(read), None), "body", ())
        between = (node for node in loop if made.lineno < node.lineno < read.lineno)
        for node in (*around, *between):
            skips = node in around or any(isinstance(n, ast.Continue) for n in ast.walk(node))
            if isinstance(node, ast.If) and skips and read not in ast.walk(node.test):
                function = ast.unparse(self.program.function(node) or node)
                if _OF_WORKER.search(ast.unparse(node.test)) and _WORKER.search(function):
                    return SHARE, node.test
        return None

    def of(self, node: ast.AST, kind: str) -> Cut | None:
        """Of the expression ``node``."""
        above = self.program.parents[node]
        if isinstance(above, ast.keyword):
            above = self.program.parents[above]
        if len(self.seen) > _MOST:
            return _ALL
        if (above, node) in self.seen:
            return None
        self.seen.add((above, node))
        if isinstance(above, ast.Subscript) and above.value is node:
            return self._indexed(above, kind)
        if isinstance(above, ast.Call):
            return self._given(above, node, kind)
        if isinstance(above, ast.For):
            names = {part.id for part in ast.walk(above.target) if isinstance(part, ast.Name)}
            loads = (load for name in names for load in self.program.loads(name))
            return self._all((n for n in loads if above in self.program.ancestors(n)), USED, above)
        is_size = isinstance(above, ast.Attribute) and above.attr in _LOOKED_AT
        if is_size or isinstance(above, (ast.Compare, ast.If, ast.While, ast.Assert)):
            return None
        if isinstance(above, ast.stmt):
            return self.of_statement(above, kind)
        is_expr = isinstance(above, ast.expr) and not isinstance(above, COMPREHENSIONS)
        return self.of(above, kind) if is_expr else _ALL

    def _indexed(self, index: ast.Subscript, kind: str) -> Cut | None:
        parts = index.slice.elts if isinstance(index.slice, ast.Tuple) else [index.slice]
        sources = list(map(self._source, parts))
        texts = list(map(ast.unparse, sources))
        of_item = isinstance(sources[0], ast.arg) and _is_item(
            function_of(self.program, sources[0])
        )
        is_window = _WINDOW.search(" ".join(texts)) and not any(self.program.loops(index))
        if (kind == FEW and (of_item or _CHOOSES.search(texts[0]))) or (kind == PART and is_window):
            return kind, index
        return self.of(index, USED if kind == FEW else kind)

    def _source(self, node: ast.AST, deep: int = 6) -> ast.AST:
        """What the variable ``node`` is given or goes through, if that is certain; a parameter."""
        bindings = bindings_of(self.program, node) if isinstance(node, ast.Name) else []
        if len(bindings) != 1 or not deep:
            return node
        around = self.program.ancestors(bindings[0])
        above = next(n for n in around if not isinstance(n, (ast.Tuple, ast.List)))
        fields = (getattr(above, name, None) for name in ("value", "context_expr", "iter"))
        source = next(filter(None, fields), None)
        return self._source(source, deep - 1) if source else bindings[0]

    def _given(self, call: ast.Call, node: ast.AST, kind: str) -> Cut | None:
        """Of an argument of ``call``, or the object whose method it is."""
        name = called_name(call)
        if name in _LOOKED_AT:
            return None
        is_few = kind == FEW and _CHOOSES.search(f"{name}(")
        if is_few or (kind == PART and "crop" in name.lower()):
            return kind, call
        if reads := reads_given(self.program, call, node):
            return self._all(reads, kind, None)
        is_whole = kind == PART and _OF_WHOLE.search(f"{name}(")
        return self.of(call, USED if is_whole or (kind == FEW and name not in _GATHERS) else kind)


def _is_item(function: Function | None) -> bool:
    return function is None or function.name.startswith(("__getitem", "__iter__", "__next__"))
