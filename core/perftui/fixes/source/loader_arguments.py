"""Which calls make a ``DataLoader``, and which edits give one other arguments."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping
from dataclasses import replace

from perftui.fixes.source.batch_copies import asynchronous_copies
from perftui.fixes.source.call_arguments import argument, decided, each_changed, removed
from perftui.fixes.source.calls import CallSpec, Context
from perftui.fixes.source.edits import AddKeyword, Edit
from perftui.fixes.source.names import qualified_name
from perftui.fixes.source.program import Decided, Literal, PatchRefusedError, Program, is_literal

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
