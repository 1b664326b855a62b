"""Arguments of a data loader: pinned memory, workers that stay, a longer queue, their threads."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence

from perftui import format as fmt
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_use import worker_use
from perftui.facts.data_loader.loader_work import loader_work
from perftui.facts.data_loader.wait_pattern import wait_pattern
from perftui.facts.fact import Facts
from perftui.facts.gpu.gpu import has_gpu
from perftui.facts.source.source_search import own_files
from perftui.fixes.change import CallChange, LineChange
from perftui.fixes.fix import Fix
from perftui.fixes.model import Risk
from perftui.fixes.source.arguments import LOADER
from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.edits import Edit, ReplaceExpression
from perftui.script.names import qualified_name
from perftui.script.program import (
    Literal,
    PatchRefusedError,
    Program,
    called_name,
    parse_program,
    read_source,
)


def loader_change(
    loader: LoaderFacts,
    title: str,
    arguments: Mapping[str, Literal],
    risks: tuple[Risk, ...],
    why_not: str,
    spec: CallSpec = LOADER,
) -> CallChange:
    """Give the loader that feeds the training other ``arguments``."""
    where = f"At {loader.source}: " if loader.source else ""
    given = ", ".join(f"{name}={value}" for name, value in arguments.items())
    seen = {"num_workers": loader.num_workers, "pin_memory": loader.pin_memory}
    several = (
        "the script creates several loaders, and it is not certain which one feeds the training"
    )
    return CallChange(
        target="DataLoader",
        arguments=arguments,
        title=title,
        file=loader.file,
        line=loader.line,
        spec=spec,
        advice=f"{where}DataLoader(..., {given})",
        seen={name: value for name, value in seen.items() if value is not None},
        risks=risks,
        why_not=why_not,
        uncertain="" if loader.certain else several,
        others=loader.others,
    )


def _pinned(facts: Facts) -> CallChange | None:
    loader = training_loader(facts)
    if loader is None:
        return None
    why_not = ""
    if has_gpu(facts) is False:
        why_not = "there is no GPU to copy to"
    elif loader.pin_memory:
        why_not = "batches are already pinned"
    elif loader.holds_cuda:
        why_not = "the dataset yields tensors that are already on the GPU, which cannot be pinned"
    title = "pin_memory False -> True"
    return loader_change(loader, title, {"pin_memory": True}, (Risk.MEMORY,), why_not)


def _persistent(facts: Facts) -> CallChange | None:
    loader = training_loader(facts)
    if loader is None:
        return None
    why_not = ""
    if loader.num_workers is None:
        why_not = "it is not known whether the loader has workers"
    elif loader.num_workers == 0:
        why_not = "the loader has no workers"
    elif loader.persistent_workers:
        why_not = "the workers already stay"
    title = "persistent_workers False -> True"
    risks = (Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY)
    return loader_change(loader, title, {"persistent_workers": True}, risks, why_not)


PIN = Fix(
    id="loader-pin",
    what="pin batches in memory, from which copies to the GPU are faster",
    explanation=(
        "A thread of the loader puts batches into pinned (page-locked) memory. Copies to the GPU "
        "are then faster, and overlap with computation if the script copies with "
        "non_blocking=True. The fix adds non_blocking=True where a loop certainly copies batches "
        "of this loader to the GPU."
    ),
    change=_pinned,
    risks=(Risk.MEMORY,),
)

PERSISTENT = Fix(
    id="loader-persistent",
    what="keep the loader's workers from one epoch to the next",
    explanation=(
        "The workers stay alive when an epoch ends instead of restarting for the next. They keep "
        "their copy of the dataset: changes that the script makes to it between epochs do not "
        "reach them. Later epochs are shuffled differently, because starting workers draws a "
        "random number."
    ),
    change=_persistent,
    risks=(Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY),
)


DEFAULT = 2
"""What torch takes where workers are asked for and nothing else is."""

DEEPER = 4
"""Times as long a queue, if it is not known how many batches a pause of the workers lasts."""

MOST = 32
"""Batches of one worker: beyond that they are as well a copy of the data."""

LARGEST_QUEUE = 2 << 30
"""Bytes that all batches of a queue may take."""


def _deeper(facts: Facts) -> CallChange | None:
    loader = training_loader(facts)
    if loader is None:
        return None
    now = loader.prefetch_factor or DEFAULT
    wanted = _wanted(facts, loader, now)
    title = f"prefetch_factor {now} -> {wanted}" if wanted > now else "a longer queue of batches"
    arguments = {"prefetch_factor": wanted}
    why_not = _why_not_deeper(facts, loader, now, wanted)
    return loader_change(loader, title, arguments, (Risk.MEMORY,), why_not)


def _wanted(facts: Facts, loader: LoaderFacts, now: int) -> int:
    """As many batches of each worker as bridge the steps from one long wait to the next, and fit
    into memory."""
    workers, pattern, largest = loader.num_workers or 1, wait_pattern(facts), _batch_bytes(facts)
    wanted = DEEPER * now
    if pattern is not None and pattern.is_regular and pattern.every > 1:
        wanted = max(2 * now, math.ceil(pattern.every / workers))
    if largest:
        wanted = min(wanted, LARGEST_QUEUE // (workers * largest))
    return max(min(wanted, MOST), 1)


def _batch_bytes(facts: Facts) -> int | None:
    made = loader_work(facts)
    return made.batch_bytes if made else None


def _why_not_deeper(facts: Facts, loader: LoaderFacts, now: int, wanted: int) -> str:
    if loader.num_workers is None:
        return "it is not known whether the loader has workers"
    if not loader.num_workers:
        return "the loader has no workers, and so no queue"
    if wanted > now:
        return ""
    size = _batch_bytes(facts)
    if now < MOST and size:
        return (
            f"the queue already holds {fmt.size(size * loader.num_workers * now)} and should not "
            "take more memory"
        )
    return f"each worker may already be {now} batches ahead"


PREFETCH = Fix(
    id="loader-prefetch",
    what="let each worker prefetch more batches",
    explanation=(
        "Each worker may prefetch more batches, so that ready batches bridge a slow one. Samples "
        "and their order stay the same, unless a sampler of your own draws random numbers for "
        "each sample: it draws them earlier. The queue takes more shared memory, of which "
        "containers often have only 64 MB."
    ),
    change=_deeper,
    risks=(Risk.MEMORY,),
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


def _worker_threads(facts: Facts) -> LineChange | None:
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
    change=_worker_threads,
    risks=(Risk.NUMERICS,),
)
