"""Which calls make a ``DataLoader`` or an optimizer, and which edits give one other arguments."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from perftui.fixes.source.calls import CallSpec, Context, argument, decided, each_changed, removed
from perftui.fixes.source.edits import AddKeyword, Edit
from perftui.script.names import qualified_name
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
)
from perftui.script.uses import known_as

KEYWORD = "non_blocking"
_GPU = re.compile(r"device|cuda|gpu|rank", re.IGNORECASE)
_CPU = re.compile(r"cpu|host", re.IGNORECASE)
_PLAIN = 6
"""Arguments of a loader by position that come before its ``collate_fn``."""
_BARS = ("enumerate", "tqdm", "trange", "track")
_SIZES = ("shape", "size", "ndim", "dtype", "numel", "dim")
_LOOKS = ("len", "type", "isinstance", "keys")


def asynchronous_copies(program: Program, loader: ast.Call) -> Mapping[str, Edit]:
    """``non_blocking=True`` for each copy of a batch of ``loader`` that is certain to be one to the
    GPU, and whose source nothing looks at any more; none where no loop is known to go through it,
    or where batches may be of a class of their own.
    """
    given = {one.arg: ast.unparse(one.value) for one in loader.keywords}
    is_own = {"collate_fn", None} & given.keys() or given.get("batch_size") == "None"
    if len(loader.args) > _PLAIN or is_own:
        return {}
    above = program.parents[loader]
    made = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
    if not isinstance(made, ast.Name):
        return {}
    loops = [one for one in program.statements() if isinstance(one, ast.For)]
    edits: dict[str, Edit] = {}
    for loop in loops:
        batch = _batch(program, loop, made)
        for call in _copies(program, loop, batch) if batch else ():
            at = program.span(call)
            edits[f"{KEYWORD} at {at[0]}:{at[1]}"] = AddKeyword(at, KEYWORD, "True")
    return edits


def _batch(program: Program, loop: ast.For, made: ast.Name) -> set[str]:
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
        is_it = known_as(program, made, program.scope(loop)) == over.id
    except PatchRefusedError:
        return set()
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)} if is_it else set()


def _bar(program: Program, over: ast.expr) -> ast.expr:
    """What ``over`` is, where it is a name for a bar around something, such as ``tqdm(loader)``."""
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
    given = [*call.args, *(one.value for one in call.keywords if one.arg == "device")]
    others = [one.arg for one in call.keywords if one.arg != "device"]
    name = called_name(call)
    if others or len(given) > 1 or name not in ("to", "cuda"):
        return False
    if name == "cuda":
        return True
    text = ast.unparse(given[0]) if given else ""
    return bool(_GPU.search(text)) and not _CPU.search(text)


def _root(program: Program, call: ast.Call) -> str:
    """The name of the batch that ``call`` copies: of ``x``, ``batch["x"]``, ``batch.x``, or of what
    a comprehension over one goes through."""
    node = call.func.value if isinstance(call.func, ast.Attribute) else None
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    for above in program.ancestors(call):
        if isinstance(above, ast.stmt):
            break
        for part in getattr(above, "generators", ()):
            if any(bound_name(one) == node.id for one in ast.walk(part.target)):
                over = part.iter
                if isinstance(over, ast.Call) and called_name(over) in ("items", "values"):
                    over = over.func.value if isinstance(over.func, ast.Attribute) else over
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
    later = [node for one in loop.body[at + 1 :] for node in ast.walk(one)]
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


PERSISTENT = "persistent_workers"
PREFETCH = "prefetch_factor"

NEEDS_WORKERS = (PERSISTENT, PREFETCH)
"""Arguments that raise ``ValueError`` without workers, so they are written only beside a number
of workers that stands in the same call. Beside a variable they are made to depend on it."""

_OF_WORKERS = (*NEEDS_WORKERS, "timeout", "multiprocessing_context")
"""Arguments that torch refuses without workers, unless they are off."""


def _planned(
    spec: CallSpec, program: Program, call: ast.Call, arguments: Mapping[str, Literal]
) -> Mapping[str, Edit]:
    """Arguments of ``NEEDS_WORKERS`` are left out beside others where they are not certain to be
    valid. Copies of pinned batches are made without waiting for them."""
    others = [name for name in arguments if name not in NEEDS_WORKERS]
    edits = each_changed(spec, program, call, {name: arguments[name] for name in others})
    # What only goes along with others is left out where it is not certain.
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
    """An argument that needs workers, where the call itself has how many there are or will be."""
    given = argument(call, "num_workers", spec.positions["num_workers"])
    workers = edits.get("num_workers")
    replaced = isinstance(given, ast.Constant) and (workers is not None or given.value)
    added = isinstance(workers, AddKeyword) and workers.at == program.span(call)
    if replaced or added:
        return each_changed(spec, program, call, {name: value})
    text = f"{ast.unparse(given)} > 0" if given is not None else ""
    if name == PREFETCH:
        text = f"{value} if {text} else None"
    present = argument(call, name, None)
    # Asked for a second time it returns the same.
    is_there = present is not None and ast.unparse(present) == text
    if not is_there and name == PREFETCH and _is_given(program, call, name):
        return each_changed(spec, program, call, {name: value})
    may_be_written = name == PREFETCH or value is True
    if is_there or not may_be_written or not _is_variable(given):
        raise PatchRefusedError("the call itself sets no number of workers")
    absent = Decided(spec.defaults.get(name), program.span(call), name)
    if decided(program, call, spec, name, type(value)) != absent:
        # To be False it may have been given for the case of no workers.
        raise PatchRefusedError(f"{name} is set, and the number of workers is a variable")
    return {name: AddKeyword(absent.place, name, text)}


def _is_given(program: Program, call: ast.Call, name: str) -> bool:
    """Whether the call has it as a number, which torch refuses unless there are workers."""
    present = argument(call, name, None)
    return present is not None and decided(program, call, LOADER, name, int).value is not None


def _without_workers(program: Program, call: ast.Call) -> Mapping[str, Edit]:
    """What has to go from a call that makes no workers any more.

    Raises:
        PatchRefusedError: it is not certain what that is, or the workers set something up.
    """
    edits: dict[str, Edit] = {}
    for name in ("worker_init_fn", *_OF_WORKERS):
        given = argument(call, name, LOADER.positions.get(name))
        if given is None:
            # Raises where it may come from a dict.
            if decided(program, call, LOADER, name, object).value:
                raise PatchRefusedError(f"{name} comes from a dict")
        elif _is_off(call, given):
            continue
        elif name == "worker_init_fn":
            raise PatchRefusedError(f"{ast.unparse(given)} would not be called without workers")
        elif given in call.args:
            raise PatchRefusedError(f"{name} is given by position")
        else:
            edits[name] = removed(program, call, name)
    return edits


def _refuse_others(program: Program, call: ast.Call) -> None:
    """Nothing where no other loader gets its number of workers from the same variable, or none that
    would then be refused by torch.

    Raises:
        PatchRefusedError: one would, or the variable is read for something else.
    """
    workers = argument(call, "num_workers", LOADER.positions["num_workers"])
    if workers is None or is_literal(workers):
        return
    text, inside = ast.unparse(workers), set(ast.walk(call))
    names = (node for node in ast.walk(program.tree) if isinstance(node, (ast.Name, ast.Attribute)))
    for node in names:
        is_read = isinstance(node.ctx, ast.Load) and node not in inside
        if is_read and ast.unparse(node) == text:
            other = next(
                (one for one in program.ancestors(node) if isinstance(one, ast.Call)), None
            )
            name = qualified_name(program, other.func) if other is not None else None
            if other is None or name not in LOADER.names or _without_workers(program, other):
                raise PatchRefusedError(f"line {node.lineno} reads {text}, too")


def _is_off(call: ast.Call, given: ast.expr) -> bool:
    """Whether an argument is None, 0 or False as soon as there are no workers."""
    if is_literal(given):
        return not ast.literal_eval(given)
    workers = argument(call, "num_workers", LOADER.positions["num_workers"])
    if workers is None or not _is_variable(workers):
        return False
    if isinstance(given, ast.IfExp) and is_literal(given.orelse):
        return _is_off(call, given.test) and not ast.literal_eval(given.orelse)
    count = ast.unparse(workers)
    return ast.unparse(given) in (f"{count} > 0", f"{count} != 0", f"bool({count})", count)


def _is_variable(given: ast.expr | None) -> bool:
    """Whether reading it twice gives the same: a name, an attribute of one, an item by literal."""
    if isinstance(given, ast.Subscript):
        return isinstance(given.slice, ast.Constant) and _is_variable(given.value)
    if isinstance(given, ast.Attribute):
        return _is_variable(given.value)
    return isinstance(given, ast.Name)


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
    defaults={"num_workers": 0, "pin_memory": False, PERSISTENT: False, "timeout": 0},
    refused={
        Context.ONE_PASS: "the loader is used for one pass only, so workers would not pay off",
        Context.LOOP: "the loader is created in a loop, so workers would start each time",
    },
    alike="loader",
    plan=_planned,
)

WITHOUT_WORKERS = replace(LOADER, refused={})
"""Calls of ``DataLoader`` in any place: leaving out workers is safe in a loop, too."""


HAVE: Mapping[str, tuple[str, ...]] = {
    "fused": ("Adagrad", "Adam", "AdamW", "SGD"),
    "foreach": (
        *("ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam"),
        *("RAdam", "RMSprop", "Rprop", "SGD"),
    ),
}
"""By argument, the classes of ``torch.optim`` that have it (torch 2.4 to 2.13)."""

_POSITIONS = {"ASGD": 6, "Adadelta": 5, "Adagrad": 6, "Adamax": 5, "RMSprop": 8}
"""Where ``foreach`` may be given by position; everywhere else it is a keyword, as is ``fused``."""


_OTHERS = ("foreach", "fused", "differentiable")
"""Arguments of which only one may be true."""


def optimizer_spec(argument: str) -> CallSpec:
    """Calls of the optimizers that have ``argument``: ``fused`` or ``foreach``."""
    names = {
        f"torch.optim.{module}{name}": f"torch.optim.{name}"
        for name in HAVE[argument]
        for module in ("", f"{name.lower()}.")
    }
    return CallSpec(
        noun="optimizer",
        what=f"a torch optimizer that supports {argument}",
        names=names,
        follows=False,
        conflicts={argument: tuple(name for name in _OTHERS if name != argument)},
        plan=_optimizer_planned,
    )


def is_sparse(call: ast.Call) -> bool:
    """Whether ``call`` makes an embedding whose gradients may be sparse, which torch has no fused
    update for."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "sparse"), None)
    is_off = isinstance(given, ast.Constant) and not given.value
    return given is not None and not is_off and "Embedding" in called_name(call)


def _optimizer_planned(
    spec: CallSpec, program: Program, call: ast.Call, arguments: Mapping[str, Literal]
) -> Mapping[str, Edit]:
    (argument,) = arguments
    sparse = next(filter(is_sparse, program.calls()), None)
    if sparse is not None and argument == "fused":
        raise PatchRefusedError(
            f"gradients are sparse at line {sparse.lineno}: no optimizer fuses them"
        )
    name = spec.names[qualified_name(program, call.func) or ""].rsplit(".", 1)[-1]
    positions = {"foreach": _POSITIONS[name]} if name in _POSITIONS else {}
    return each_changed(replace(spec, positions=positions), program, call, arguments)
