"""Data loaders: which calls make one, which edits give it arguments, and the fixes that do."""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from perftui import format as fmt
from perftui.facts.cpu.machine import has_gpu
from perftui.facts.data_loader.input_wait import wait_pattern
from perftui.facts.data_loader.loader import (
    PREFETCH_FACTOR,
    LoaderFacts,
    loader_work,
    training_loader,
)
from perftui.facts.fact import Facts
from perftui.fixes.fix import CallChange, fix
from perftui.fixes.option import Risk
from perftui.fixes.source.calls import CallSpec, argument, decided, each_changed, removed
from perftui.fixes.source.edits import AddKeyword, Edit
from perftui.script.names import name_in_scope, qualified_name
from perftui.script.program import (
    Decided,
    Literal,
    Loop,
    PatchRefusedError,
    Program,
    assigned_value,
    bound_name,
    called_name,
    is_literal,
    receiver,
    root_of,
)

KEYWORD = "non_blocking"
_GPU = re.compile(r"device|cuda|gpu|rank", re.IGNORECASE)
_CPU = re.compile(r"cpu|host", re.IGNORECASE)
_PLAIN = 6
"""Arguments of a loader by position that come before its ``collate_fn``."""
_BARS = ("enumerate", "tqdm", "trange", "track")
_SIZES = ("shape", "size", "ndim", "dtype", "numel", "dim")
_LOOKS = ("len", "type", "isinstance", "keys")


def asynchronous_copies(program: Program, loader: ast.Call) -> Mapping[str, Edit]:
    """``non_blocking=True`` for each copy of a batch of ``loader`` that certainly goes to the GPU
    and whose source is not read again; none where no loop certainly iterates the loader, or
    batches may be of a class of their own."""
    keywords = {kw.arg: ast.unparse(kw.value) for kw in loader.keywords}
    is_own = {"collate_fn", None} & keywords.keys() or keywords.get("batch_size") == "None"
    if len(loader.args) > _PLAIN or is_own:
        return {}
    above = program.parents[loader]
    name = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
    if not isinstance(name, ast.Name):
        return {}
    edits: dict[str, Edit] = {}
    for loop in (node for node in program.statements() if isinstance(node, ast.For)):
        batch = _batch(program, loop, name)
        for call in _copies(program, loop, batch) if batch else ():
            at = program.span(call)
            edits[f"{KEYWORD} at {at[0]}:{at[1]}"] = AddKeyword(at, KEYWORD, "True")
    return edits


def _batch(program: Program, loop: ast.For, name: ast.Name) -> set[str]:
    """Names that ``loop`` gives a batch of the loader, or parts of it."""
    over, target = _bar(program, loop.iter), loop.target
    while isinstance(over, ast.Call) and called_name(over) in _BARS and over.args:
        if called_name(over) == "enumerate":
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
                return set()
            target = target.elts[1]
        over = over.args[0]
    if not isinstance(over, ast.Name):
        return set()
    try:
        is_it = name_in_scope(program, name, program.scope(loop)) == over.id
    except PatchRefusedError:
        return set()
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)} if is_it else set()


def _bar(program: Program, over: ast.expr) -> ast.expr:
    """The bar that ``over`` is a name of, such as ``tqdm(loader)``; else ``over`` itself."""
    if isinstance(over, ast.Call) and called_name(over) == "enumerate" and len(over.args) == 1:
        return ast.Call(over.func, [_bar(program, over.args[0])], [])
    bindings = program.bindings(over.id) if isinstance(over, ast.Name) else []
    value = assigned_value(program, bindings[0]) if len(bindings) == 1 else None
    return value if isinstance(value, ast.Call) and called_name(value) in _BARS else over


def _copies(program: Program, loop: ast.For, batch: set[str]) -> Iterator[ast.Call]:
    for statement in loop.body:
        for call in ast.walk(statement):
            if not isinstance(call, ast.Call) or not _is_copy(call):
                continue
            name = _root(program, call)
            if name in batch and _is_fresh(program, loop, statement, name):
                yield call


def _is_copy(call: ast.Call) -> bool:
    """``x.to(device)`` or ``x.cuda()``, with nothing that says how to wait."""
    args = [*call.args, *(kw.value for kw in call.keywords if kw.arg == "device")]
    others = [kw.arg for kw in call.keywords if kw.arg != "device"]
    name = called_name(call)
    if others or len(args) > 1 or name not in ("to", "cuda"):
        return False
    if name == "cuda":
        return True
    text = ast.unparse(args[0]) if args else ""
    return bool(_GPU.search(text)) and not _CPU.search(text)


def _root(program: Program, call: ast.Call) -> str:
    """The name of the batch that ``call`` copies: of ``x``, ``batch["x"]``, ``batch.x``, or of what
    a comprehension over one goes through."""
    node = root_of(call.func)
    if not isinstance(node, ast.Name) or node is call.func:
        return ""
    for above in program.ancestors(call):
        if isinstance(above, ast.stmt):
            break
        for part in getattr(above, "generators", ()):
            if any(bound_name(item) == node.id for item in ast.walk(part.target)):
                over = part.iter
                if isinstance(over, ast.Call) and called_name(over) in ("items", "values"):
                    over = receiver(over) or over
                return over.id if isinstance(over, ast.Name) else ""
    return node.id


def _is_fresh(program: Program, loop: ast.For, statement: ast.stmt, name: str) -> bool:
    """Whether ``name`` is what the loader gave, and is not changed while it may still be copied."""
    at = loop.body.index(statement)
    for before in loop.body[:at]:
        if any(bound_name(node) == name for node in ast.walk(before)):
            return False
    if isinstance(statement, (Loop, ast.If, ast.Try)):
        return False
    if any(bound_name(node) == name for node in ast.walk(statement)):
        return True
    later = [node for part in loop.body[at + 1 :] for node in ast.walk(part)]
    uses = [n for n in later if isinstance(n, ast.Name) and n.id == name]
    return all(_only_looks(program, use) for use in uses)


def _only_looks(program: Program, use: ast.Name) -> bool:
    """Whether ``use`` copies the batch as well, or asks for its size."""
    for above in program.ancestors(use):
        if isinstance(above, ast.Attribute) and above.attr in _SIZES:
            return True
        if isinstance(above, ast.Call) and (_is_copy(above) or called_name(above) in _LOOKS):
            return True
        if isinstance(above, ast.stmt):
            return False
    return False


_PERSISTENT = "persistent_workers"
_PREFETCH = "prefetch_factor"

NEEDS_WORKERS = (_PERSISTENT, _PREFETCH)
"""Arguments that raise ``ValueError`` without workers, so they are written only beside a number
of workers that stands in the same call. Beside a variable they are made to depend on it."""

_OF_WORKERS = (*NEEDS_WORKERS, "timeout", "multiprocessing_context")
"""Arguments that torch refuses without workers, unless they are off."""


def _planned(
    spec: CallSpec, program: Program, call: ast.Call, arguments: Mapping[str, Literal]
) -> Mapping[str, Edit]:
    """The edits of a loader. ``NEEDS_WORKERS`` are left out beside other arguments where they may
    be invalid. Copies of pinned batches are made non-blocking."""
    others = [name for name in arguments if name not in NEEDS_WORKERS]
    edits = each_changed(spec, program, call, {name: arguments[name] for name in others})
    # Arguments that only go along with others are left out where they are not certain.
    left_out = (PatchRefusedError,) if others else ()
    for name in (name for name in arguments if name in NEEDS_WORKERS):
        with contextlib.suppress(*left_out):
            edits |= _beside_workers(spec, program, call, name, arguments[name], edits)
    if arguments.get("num_workers") == 0 and edits:
        _refuse_others(program, call)
        edits |= _without_workers(program, call)
    if arguments.get("pin_memory") and "pin_memory" in edits:
        edits |= asynchronous_copies(program, call)
    return edits


def _beside_workers(
    spec: CallSpec,
    program: Program,
    call: ast.Call,
    name: str,
    value: Literal,
    edits: Mapping[str, Edit],
) -> Mapping[str, Edit]:
    """The edit of an argument that needs workers, where the call itself sets their number."""
    number = argument(call, "num_workers", spec.positions["num_workers"])
    workers = edits.get("num_workers")
    replaced = isinstance(number, ast.Constant) and (workers is not None or number.value)
    added = isinstance(workers, AddKeyword) and workers.at == program.span(call)
    if replaced or added:
        return each_changed(spec, program, call, {name: value})
    text = f"{ast.unparse(number)} > 0" if number is not None else ""
    if name == _PREFETCH:
        text = f"{value} if {text} else None"
    present = argument(call, name, None)
    # The edit may have been made before.
    is_there = present is not None and ast.unparse(present) == text
    is_set = present is not None and not is_there and name == _PREFETCH
    # torch refuses a number here unless there are workers.
    if is_set and decided(program, call, LOADER, name, int).value is not None:
        return each_changed(spec, program, call, {name: value})
    may_be_written = name == _PREFETCH or value is True
    if is_there or not may_be_written or not _is_variable(number):
        raise PatchRefusedError("the call itself sets no number of workers")
    absent = Decided(spec.defaults.get(name), program.span(call), name)
    if decided(program, call, spec, name, type(value)) != absent:
        # It may be False for the case of no workers.
        raise PatchRefusedError(f"{name} is set, and the number of workers is a variable")
    return {name: AddKeyword(absent.place, name, text)}


def _without_workers(program: Program, call: ast.Call) -> Mapping[str, Edit]:
    """Removes arguments that need workers; refused where they are not certain, or workers set
    something up."""
    edits: dict[str, Edit] = {}
    for name in ("worker_init_fn", *_OF_WORKERS):
        value = argument(call, name, LOADER.positions.get(name))
        if value is None:
            # Raises if it may come from a dict.
            if decided(program, call, LOADER, name, object).value:
                raise PatchRefusedError(f"{name} comes from a dict")
        elif _is_off(call, value):
            continue
        elif name == "worker_init_fn":
            raise PatchRefusedError(f"{ast.unparse(value)} would not be called without workers")
        elif value in call.args:
            raise PatchRefusedError(f"{name} is given by position")
        else:
            edits[name] = removed(program, call, name)
    return edits


def _refuse_others(program: Program, call: ast.Call) -> None:
    """Refuse if the variable with the number of workers is read elsewhere, except by loaders that
    are valid without workers as they are."""
    workers = argument(call, "num_workers", LOADER.positions["num_workers"])
    if workers is None or is_literal(workers):
        return
    text, inside = ast.unparse(workers), set(ast.walk(call))
    names = (node for node in ast.walk(program.tree) if isinstance(node, (ast.Name, ast.Attribute)))
    for node in names:
        is_read = isinstance(node.ctx, ast.Load) and node not in inside
        if is_read and ast.unparse(node) == text:
            other = next(
                (above for above in program.ancestors(node) if isinstance(above, ast.Call)), None
            )
            name = qualified_name(program, other.func) if other is not None else None
            if other is None or name not in LOADER.names or _without_workers(program, other):
                raise PatchRefusedError(f"line {node.lineno} reads {text}, too")


def _is_off(call: ast.Call, value: ast.expr) -> bool:
    """Whether an argument is None, 0 or False as soon as there are no workers."""
    if is_literal(value):
        return not ast.literal_eval(value)
    workers = argument(call, "num_workers", LOADER.positions["num_workers"])
    if workers is None or not _is_variable(workers):
        return False
    if isinstance(value, ast.IfExp) and is_literal(value.orelse):
        return _is_off(call, value.test) and not ast.literal_eval(value.orelse)
    count = ast.unparse(workers)
    return ast.unparse(value) in (f"{count} > 0", f"{count} != 0", f"bool({count})", count)


def _is_variable(node: ast.expr | None) -> bool:
    """Whether reading it twice gives the same: a name, an attribute of one, an item by literal."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and _is_variable(node.value)
    if isinstance(node, ast.Attribute):
        return _is_variable(node.value)
    return isinstance(node, ast.Name)


LOADER = CallSpec(
    noun="loader",
    what="torch's DataLoader",
    names={
        "torch.utils.data.DataLoader": "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    },
    # dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory,
    # drop_last, timeout, worker_init_fn, ... as it has had them since torch 1.0.
    positions={
        "num_workers": 5,
        "pin_memory": 7,
        "timeout": 9,
        "worker_init_fn": 10,
        "multiprocessing_context": 11,
    },
    defaults={"num_workers": 0, "pin_memory": False, _PERSISTENT: False, "timeout": 0},
    why_not_iterated="the loader is used for one pass only, so workers would not pay off",
    why_not_in_loops="the loader is created in a loop, so workers would start each time",
    alike="loader",
    plan=_planned,
)

WITHOUT_WORKERS = replace(LOADER, why_not_iterated="", why_not_in_loops="")
"""Calls of ``DataLoader`` in any place: leaving out workers is safe in a loop, too."""


def loader_change(
    loader: LoaderFacts,
    title: str,
    arguments: Mapping[str, Literal],
    why_not: str,
    spec: CallSpec = LOADER,
    risks: tuple[Risk, ...] | None = None,
) -> CallChange:
    """Give the loader that feeds the training other ``arguments``."""
    where = f"At {loader.source}: " if loader.source else ""
    text = ", ".join(f"{name}={value}" for name, value in arguments.items())
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
        advice=f"{where}DataLoader(..., {text})",
        seen={name: value for name, value in seen.items() if value is not None},
        risks=risks,
        why_not=why_not,
        uncertain="" if loader.certain else several,
        others=loader.others,
    )


@fix(what="pin batches in memory, from which copies to the GPU are faster", risks=(Risk.MEMORY,))
def loader_pin(facts: Facts) -> CallChange | None:
    """A thread of the loader puts batches into pinned (page-locked) memory. Copies to the GPU are
    then faster, and overlap with computation if the script copies with non_blocking=True. The fix
    adds non_blocking=True where a loop certainly copies batches of this loader to the GPU."""
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
    return loader_change(loader, "pin_memory False -> True", {"pin_memory": True}, why_not)


@fix(
    what="keep the loader's workers from one epoch to the next",
    risks=(Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY),
)
def loader_persistent(facts: Facts) -> CallChange | None:
    """The workers stay alive when an epoch ends instead of restarting for the next. They keep their
    copy of the dataset: changes that the script makes to it between epochs do not reach them. Later
    epochs are shuffled differently, because starting workers draws a random number."""
    loader = training_loader(facts)
    if loader is None:
        return None
    stays = "the workers already stay" if loader.persistent_workers else ""
    title = "persistent_workers False -> True"
    why_not = lacks_workers(loader) or stays
    return loader_change(loader, title, {"persistent_workers": True}, why_not)


def lacks_workers(loader: LoaderFacts) -> str:
    """Why nothing can be done about the workers of a loader that may have none."""
    if loader.num_workers is None:
        return "it is not known whether the loader has workers"
    return "" if loader.num_workers else "the loader has no workers"


DEEPER = 4
"""Times as long a queue, if it is not known how many batches a pause of the workers lasts."""

MOST = 32
"""Batches of one worker: beyond that they are as well a copy of the data."""

LARGEST_QUEUE = 2 << 30
"""Bytes that all batches of a queue may take."""


@fix(what="let each worker prefetch more batches", risks=(Risk.MEMORY,))
def loader_prefetch(facts: Facts) -> CallChange | None:
    """Each worker may prefetch more batches, so that ready batches bridge a slow one. Samples and
    their order stay the same, unless a sampler of your own draws random numbers for each sample: it
    draws them earlier. The queue takes more shared memory, of which containers often have only 64
    MB."""
    loader = training_loader(facts)
    if loader is None:
        return None
    now = loader.prefetch_factor or PREFETCH_FACTOR
    # As many batches of each worker as bridge the steps from one long wait to the next, and fit
    # into memory.
    workers, pattern, work = loader.num_workers or 1, wait_pattern(facts), loader_work(facts)
    wanted = DEEPER * now
    if pattern is not None and pattern.is_regular and pattern.every > 1:
        wanted = max(2 * now, math.ceil(pattern.every / workers))
    if work and work.batch_bytes:
        wanted = min(wanted, LARGEST_QUEUE // (workers * work.batch_bytes))
    wanted = max(min(wanted, MOST), 1)
    title = f"prefetch_factor {now} -> {wanted}" if wanted > now else "a longer queue of batches"
    why_not = _why_not_deeper(facts, loader, now, wanted)
    return loader_change(loader, title, {"prefetch_factor": wanted}, why_not)


def _why_not_deeper(facts: Facts, loader: LoaderFacts, now: int, wanted: int) -> str:
    if not loader.num_workers:
        no_queue = ", and so no queue" if loader.num_workers == 0 else ""
        return f"{lacks_workers(loader)}{no_queue}"
    if wanted > now:
        return ""
    work = loader_work(facts)
    if now < MOST and work and work.batch_bytes:
        size = fmt.size(work.batch_bytes * loader.num_workers * now)
        return f"the queue already holds {size} and should not take more memory"
    return f"each worker may already be {now} batches ahead"
