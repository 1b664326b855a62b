"""``worker-threads``: one thread in each worker, where a script gives them more."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.data_loader.loader_use import worker_use
from perftui.facts.fact import Facts
from perftui.facts.source.source_search import own_files
from perftui.fixes.fix import Fix
from perftui.fixes.line_change import LineChange
from perftui.fixes.model import Risk
from perftui.fixes.source.edits import Edit, ReplaceExpression
from perftui.fixes.source.loader_arguments import LOADER
from perftui.script.names import qualified_name
from perftui.script.program import (
    PatchRefusedError,
    Program,
    called_name,
    parse_program,
    read_source,
)

SETTERS = ("torch.set_num_threads", "cv2.setNumThreads")
"""Functions that are given how many threads this process computes on."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SAMPLES = frozenset({"__getitem__", "__getitems__", "__iter__"})
"""Methods of a dataset that its workers call."""

_COUNTS = frozenset({"cpu_count", "len", "sched_getaffinity", "int", "max", "min"})
"""Functions that do nothing but count."""


def one_thread(program: Program, line: int) -> Sequence[Edit]:
    """The number of threads at ``line`` as 1."""
    for call in thread_calls(program):
        if call.lineno <= line <= (call.end_lineno or line):
            return (_one(program, call),)
    raise PatchRefusedError("no line of the script certainly sets the threads of its workers")


def thread_calls(program: Program) -> Iterator[ast.Call]:
    """Calls that set how many threads a worker computes on: in a ``worker_init_fn``, or where a
    dataset makes its samples."""
    names = _starters(program)
    for call in program.calls():
        if qualified_name(program, call.func) in SETTERS:
            around = next((n for n in program.ancestors(call) if isinstance(n, _FUNCTIONS)), None)
            if around is not None and _is_of_workers(program, around, names):
                yield call


def _starters(program: Program) -> set[str]:
    """Names of functions that are given to a loader as ``worker_init_fn``, some through
    ``partial``."""
    found = set()
    for call in program.calls():
        if qualified_name(program, call.func) not in LOADER.names:
            continue
        for given in (one.value for one in call.keywords if one.arg == "worker_init_fn"):
            wraps = isinstance(given, ast.Call) and called_name(given) == "partial" and given.args
            function = given.args[0] if isinstance(given, ast.Call) and wraps else given
            if isinstance(function, ast.Name):
                found.add(function.id)
    return found


def _is_of_workers(program: Program, function: ast.AST, starters: set[str]) -> bool:
    above = program.parents[function]
    if isinstance(function, ast.Lambda):
        return isinstance(above, ast.keyword) and above.arg == "worker_init_fn"
    name = getattr(function, "name", "")
    if isinstance(above, ast.ClassDef):
        bases = [ast.unparse(base) for base in above.bases]
        return name in _SAMPLES and any(base.endswith("Dataset") for base in bases)
    return name in starters and len(program.bindings(name)) == 1


def _one(program: Program, call: ast.Call) -> Edit:
    if len(call.args) != 1 or call.keywords:
        raise PatchRefusedError(f"line {call.lineno} passes more than a number of threads")
    (given,) = call.args
    text = ast.unparse(given)
    if text in ("0", "1"):
        raise PatchRefusedError("each worker already has one thread")
    called = [node for node in ast.walk(given) if isinstance(node, ast.Call)]
    if any(called_name(one) not in _COUNTS for one in called) or isinstance(given, ast.Starred):
        raise PatchRefusedError(f"{text} may do more than count")
    return ReplaceExpression(program.span(given), "1")


def _change(facts: Facts) -> LineChange | None:
    has_finding = any(one.rule == "workers-oversubscribed" for one in diagnosis(facts).findings)
    use = worker_use.or_none(facts)
    if not has_finding or use is None or not use.has_threads:
        return None
    found = _line(facts)
    loader = training_loader(facts)
    if found is None and loader is not None and loader.file and loader.line:
        found = loader.file, loader.line
    if found is None:
        return None
    return LineChange(
        f"threads of a worker {use.computing_threads:.0f} -> 1",
        *found,
        one_thread,
        "one thread in worker_init_fn: torch.set_num_threads(1), cv2.setNumThreads(0)",
        (Risk.NUMERICS,),
    )


def _line(facts: Facts) -> tuple[str, int] | None:
    for path, _ in own_files(facts):
        try:
            program = parse_program(read_source(path))
        except PatchRefusedError:
            continue
        for call in thread_calls(program):
            return str(path), call.lineno
    return None


WORKER_THREADS = Fix(
    id="worker-threads",
    what="use one thread in each worker",
    explanation=(
        "Each worker makes its samples on one thread, torch's own default for workers, so that "
        "workers and training do not compete for cores. Samples stay the same; sums in long "
        "operators are rounded differently."
    ),
    change=_change,
    risks=(Risk.NUMERICS,),
)
