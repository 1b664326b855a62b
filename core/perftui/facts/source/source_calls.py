"""Find, by text, what in the user's own source calls an operator, or the model again.

Samples show more, if there are enough of them. A place is only named if it is the only one that
fits."""

from __future__ import annotations

import ast
import builtins
import filecmp
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import TypeVar

from perftui.facts.fact import Facts, fact, notes_of
from perftui.facts.source.lines import LineShare, main_thread, stack_samples
from perftui.run.layout import RunLayout
from perftui.script.command_line import script_of
from perftui.script.evaluation import WITHOUT_GRADIENTS, is_without_gradients
from perftui.script.program import (
    COMPREHENSIONS,
    Function,
    Loop,
    Program,
    called_name,
    called_names,
    program_of,
    variables,
)
from perftui.script.training import trains
from perftui.script.turns import heads_of
from perftui.script.uses import Use, uses_at

_T = TypeVar("_T")

MOST_FILES = 8

LARGEST = 1 << 18
"""Largest file read, in bytes: some 6000 lines, which Python parses in 0.1 s, once."""


def matching_line(facts: Facts, pattern: str, *, only: bool = False) -> LineShare | None:
    """The first line that matches ``pattern``, outside comments and docstrings: in the script, then
    in files named by stack samples. None if none matches, if several do with ``only``, or if the
    files changed since the run began and it keeps no copy of them."""
    lines = in_own_files(facts, lambda program: _matching(program, pattern))
    return None if not lines or (only and len(lines) > 1) else LineShare(*lines[0])


def in_own_files(facts: Facts, read: Callable[[Program], Iterable[_T]]) -> list[tuple[str, _T]]:
    """Results of ``read`` for each of the user's files, each with the file's name."""
    return [
        (str(path), item)
        for path, text in own_files(facts).items()
        for item in read(program_of(*text))
    ]


@fact
def own_files(facts: Facts) -> Mapping[Path, tuple[Path, int]]:
    """The ``source_files`` as the run read them: where that text is, and when it was last changed.
    Of one that changed since the run began it is the run's copy; without a copy it is left out."""
    began = facts.manifest.started_ns if facts.manifest else 0
    texts = {path: (path, changed) for path, changed in source_files(facts)}
    later = [path for path, (_, changed) in texts.items() if changed > began]
    # A live run is judged every second: its copies are looked for only where they are needed.
    copies = _kept_sources(facts) if later else {}
    for path in later:
        del texts[path]
        if path in copies:
            texts[path] = copies[path], began
    return texts


def uses_of(facts: Facts, file: str | None, line: int | None) -> tuple[Use, ...]:
    """What ``line`` of one of the ``own_files`` calls; empty for any other place."""
    program = own_program(facts, file)
    return uses_at(program, line or 0) if program else ()


def own_program(facts: Facts, file: str | None) -> Program | None:
    """One of the ``own_files``; None for any other."""
    text = own_files(facts).get(Path(file or ""))
    return program_of(*text) if text is not None else None


@fact
def source_files(facts: Facts) -> tuple[tuple[Path, int], ...]:
    """The user's source files with mtime in ns: the script, then files named by samples, then
    modules imported from its directory. Empty for a trace alone."""
    manifest = facts.manifest
    if manifest is None:
        return ()
    result = []
    scripts = (note.get("argv0") for note in notes_of(facts.events, "process"))
    tables = (stacks["file"].tolist() for stacks in stack_samples(facts) if "file" in stacks)
    names = [
        *map(str, filter(None, scripts)),
        *(file for table in tables for file in table if file),
    ]
    # A script is named as it was launched, samples have its absolute path.
    files = [Path(manifest.cwd) / name for name in dict.fromkeys(names)]
    files += _imported(files[0]) if files else []
    for path in list(dict.fromkeys(files))[:MOST_FILES]:
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_size <= LARGEST:
            result.append((path, status.st_mtime_ns))
    return tuple(result)


def compared_sources(before: Facts, after: Facts) -> dict[Path, tuple[Path, Path] | None]:
    """The user's files of which two runs of a script keep copies, with both copies, or None where
    those are the same."""
    first, last = _kept_sources(before), _kept_sources(after)
    result = dict[Path, tuple[Path, Path] | None]()
    for path in (path for path, _ in source_files(after) if path in first and path in last):
        with suppress(OSError):
            is_same = filecmp.cmp(first[path], last[path], shallow=False)
            result[path] = None if is_same else (first[path], last[path])
    return result


def edited_since(facts: Facts) -> list[str]:
    """Names of the user's files that are no longer what they were when the run began."""
    copies = [(path, copy) for path, copy in _kept_sources(facts).items() if path.is_file()]
    return [path.name for path, copy in copies if not filecmp.cmp(path, copy, shallow=False)]


@fact
def _kept_sources(facts: Facts) -> Mapping[Path, Path]:
    """Copies of the script and the modules beside it, made when the run began, by what they are
    copies of; empty where the run has none."""
    script = script_of(facts.manifest)
    if script is None or facts.run is None:
        return {}
    copies = RunLayout(facts.run.root).sources.glob("*.py")
    return {script.path.parent / copy.name: copy for copy in copies}


def _imported(script: Path) -> list[Path]:
    """Modules in the directory of ``script`` that it imports, in that order."""
    try:
        program = program_of(script, script.stat().st_mtime_ns)
    except OSError:
        return []
    names: dict[str, None] = {}
    for node in program.nodes:
        if isinstance(node, ast.Import):
            names.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module and node.level < 2:
            names[node.module] = None
    files = (script.parent.joinpath(*name.split(".")).with_suffix(".py") for name in names)
    return [file for file in files if file.is_file()]


@lru_cache(128)
def _matching(program: Program, pattern: str) -> tuple[int, ...]:
    """Lines of a file that match ``pattern``, outside comments and docstrings."""
    matches, lines = re.compile(pattern).search, enumerate(program.lines, 1)
    numbers = [number for number, line in lines if matches(line.partition("#")[0])]
    texts = [node for node in program.statements() if isinstance(node, ast.Expr)]
    texts = [text for text in texts if isinstance(text.value, ast.Constant)]
    documented = {line for text in texts for line in range(text.lineno, (text.end_lineno or 0) + 1)}
    return tuple(number for number in numbers if number not in documented)


FITS = 0.5
"""Share of a turn's operators that a loop's text must call to be that loop."""

FEWEST_NAMES = 2
"""Fewest operators of a turn that a loop's text must call, except in loops over parameters: a
single one may be in any loop."""

_WEIGHTS = re.compile(r"param|grad|weight|state_dict|buffers")

_LOOPS = (Loop, *COMPREHENSIONS)

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
    name = name_of(operator)
    calls = in_own_files(facts, Program.calls)
    return only_line(
        (file, call.lineno) for file, call in calls if called_name(call).strip("_") == name
    )


def loop_of(facts: Facts, operators: Sequence[str], *, pieces: bool = False) -> LineShare | None:
    """The innermost loop whose text calls most of ``operators``, at least half; None on a tie or
    without one. ``pieces`` restricts it to loops that index by their loop variable."""
    wanted = {name_of(operator) for operator in operators}
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


def only_line(places: Iterable[tuple[str, int]]) -> LineShare | None:
    """The line at the only one of ``places`` (file, number); None if there is not exactly one."""
    lines = set(places)
    return LineShare(*lines.pop()) if len(lines) == 1 else None


def name_of(operator: str) -> str:
    """How Python calls an operator: ``aten::linalg_svdvals`` is called as ``svdvals``."""
    name = operator.removeprefix("aten::").strip("_")
    for prefix in ("linalg_", "vector_", "native_", "special_", "fft_"):
        name = name.removeprefix(prefix)
    return name


@lru_cache(MOST_FILES)
def _loops(program: Program) -> tuple[_Loop, ...]:
    loops = []
    for node in program.nodes:
        if isinstance(node, _LOOPS):
            parts = (getattr(node, name, None) or [] for name in ("body", "elt", "key", "value"))
            turn = (item for part in parts for item in (part if isinstance(part, list) else [part]))
            inside = [below for item in turn for below in ast.walk(item)]
            names = frozenset(name for part in inside for name in _names(part))
            if "backward" not in names and not any(isinstance(part, _LOOPS) for part in inside):
                heads = heads_of(node)
                over = " ".join(ast.unparse(head.iter) for head in heads)
                bound = variables(*(head.target for head in heads))
                indices = (part.slice for part in inside if isinstance(part, ast.Subscript))
                indexes = not bound.isdisjoint(variables(*indices))
                is_over = _WEIGHTS.search(over) is not None
                loops.append(_Loop(node.lineno, names, indexes, is_over))
    return tuple(loops)


@lru_cache(MOST_FILES)
def _repeated(program: Program) -> tuple[int, ...]:
    passes, lines = program.calls("backward"), []
    scopes = [program.scope(call) for call in passes]
    for back, scope in zip(passes, scopes, strict=True):
        if scopes.count(scope) > 1:
            continue
        calls = [call for call in program.calls() if program.scope(call) is scope]
        loss = ast.unparse(back.func).removesuffix(".backward")
        alike: dict[str, list[int]] = {}
        for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
            if _may_be_model(call) and loss not in map(ast.unparse, call.args):
                alike.setdefault(ast.unparse(call), []).append(call.lineno)
        again = [same for same in alike.values() if len(same) > 1 and same[0] < back.lineno]
        lines += [next((at for at in same if at > back.lineno), same[1]) for same in again]
    return tuple(lines)


def _may_be_model(call: ast.Call) -> bool:
    """Whether ``call`` is of a name, or an attribute of ``self``, with only variable arguments."""
    plain = (ast.Name, ast.Attribute, ast.Subscript, ast.Starred)
    is_plain = bool(call.args) and all(isinstance(argument, plain) for argument in call.args)
    return is_plain and _is_own(call.func) and ast.unparse(call.func).count(".") <= 1


def _is_own(function: ast.expr) -> bool:
    """Whether it is a variable, and no function of Python, or something of ``self``."""
    if isinstance(function, ast.Name):
        return not hasattr(builtins, function.id)
    return isinstance(function, ast.Attribute) and ast.unparse(function).startswith("self.")


def _names(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Call):
        return (called_name(node).strip("_"),)
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        return ("select", "slice", "index_put", "copy", "fill")
    return _BY_SYNTAX.get(type(node), ())


_KEEPERS = frozenset({"append", "appendleft", "add", "extend"})


def line_that_keeps_graph(facts: Facts) -> LineShare | None:
    """The only line of a loop around backward, or of a module, that updates a variable from itself,
    or appends a computed value, without detaching; None if there are several or none."""
    return only_line(in_own_files(facts, _keeping_lines))


@lru_cache(MOST_FILES)
def _keeping_lines(program: Program) -> tuple[int, ...]:
    around = (above for call in program.calls("backward") for above in program.ancestors(call))
    loops = {above for above in around if isinstance(above, Loop)}
    outer = {above for loop in loops for above in program.ancestors(loop)}
    lines = [line for loop in loops.difference(outer) for line in _carried(loop)]
    for node in program.statements():
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        # An attribute of ``self`` that is made from itself and something else.
        (own, read), called = _given_and_read(node), called_names(node.value)
        is_state = any(name.startswith("self.") for name in own & read)
        if is_state and called and not called & WITHOUT_GRADIENTS:
            functions = (above for above in program.ancestors(node) if isinstance(above, Function))
            if any(not function.name.startswith("__") for function in functions):
                lines.append(node.lineno)
    return tuple(lines)


def _carried(loop: Loop) -> Iterator[int]:
    """Lines that update a variable from its value of the previous turn."""
    fresh = variables(loop.target) if not isinstance(loop, ast.While) else set()
    computed: set[str] = set()
    for node in _in_order(loop.body):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            (own, read), called = _given_and_read(node), called_names(node.value)
            updates = own & read - fresh and (called or read & computed)
            if updates and not called & WITHOUT_GRADIENTS:
                yield node.lineno
            fresh |= own
            computed |= own if called else set()
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            is_kept = called_name(call) in _KEEPERS and not called_names(call) & WITHOUT_GRADIENTS
            if is_kept and call.args:
                yield from [node.lineno] if variables(call.args[0]) & computed else []


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in the order of the text, without those of functions and blocks without graphs."""
    for statement in body:
        if isinstance(statement, (Function, ast.ClassDef)):
            continue
        if isinstance(statement, ast.With) and called_names(*statement.items) & WITHOUT_GRADIENTS:
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _in_order(getattr(statement, name, []))


def _given_and_read(node: ast.Assign | ast.AugAssign) -> tuple[set[str], set[str]]:
    if isinstance(node, ast.Assign):
        return variables(*node.targets), variables(node.value)
    return variables(node.target), variables(node)


def line_without_gradients(facts: Facts) -> LineShare | None:
    """A line of a loop under ``no_grad`` or ``inference_mode``: the one with most main-thread time,
    else the loop, if it is the only one. None if unknown."""
    loops = in_own_files(facts, _loops_without_gradients)
    thread = main_thread.or_none(facts)
    for line in thread.lines if thread else ():
        if any(line.file == file and first <= line.line <= last for file, (first, last) in loops):
            return line
    return only_line((file, first) for file, (first, _) in loops)


def line_of_scoring(facts: Facts) -> LineShare | None:
    """The only line that calls a model between its ``eval()`` and its ``train()`` in one function;
    None if there is no such line, or several."""
    return only_line(in_own_files(facts, _scoring_lines))


@lru_cache(MOST_FILES)
def _scoring_lines(program: Program) -> tuple[int, ...]:
    lines = []
    for function in (node for node in program.nodes if isinstance(node, ast.FunctionDef)):
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        for call in calls:
            model = ast.unparse(call.func)
            off, on = (
                [one.lineno for one in calls if ast.unparse(one.func) == f"{model}.{switch}"]
                for switch in ("eval", "train")
            )
            if off and on and min(off) < call.lineno < max(on):
                lines.append(call.lineno)
    return tuple(lines)


@lru_cache(MOST_FILES)
def _loops_without_gradients(program: Program) -> tuple[tuple[int, int], ...]:
    """First and last lines of the outermost loops that call a model without gradients."""
    lines = []
    for loop in (node for node in program.nodes if isinstance(node, _LOOPS)):
        # Up to the next loop around it.
        above = takewhile(lambda node: not isinstance(node, Loop), program.ancestors(loop))
        is_off = any(is_without_gradients(program, node) for node in above)
        calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call) and node.args)
        if is_off and any(_is_own(call.func) for call in calls) and not trains(program, loop):
            lines.append((loop.lineno, loop.end_lineno or loop.lineno))
    return tuple(lines)
