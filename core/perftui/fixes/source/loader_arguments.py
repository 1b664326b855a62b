"""Which calls make a ``DataLoader``, and which edits give one other arguments."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Mapping

from perftui.fixes.source.call_arguments import argument, decided, each_changed
from perftui.fixes.source.calls import CallSpec, Context
from perftui.fixes.source.edits import AddKeyword, Decided, Edit, Literal, PatchRefusedError
from perftui.fixes.source.program import Program

PERSISTENT = "persistent_workers"

NEEDS_WORKERS = (PERSISTENT, "prefetch_factor")
"""Arguments that raise ``ValueError`` without workers, so they are written only beside a number
of workers that stands in the same call. Beside a variable persistence is made to depend on it."""


def _planned(
    spec: CallSpec, program: Program, call: ast.Call, arguments: Mapping[str, Literal]
) -> Mapping[str, Edit]:
    """Arguments of ``NEEDS_WORKERS`` are left out beside others where they are not certain to be
    valid."""
    others = [name for name in arguments if name not in NEEDS_WORKERS]
    edits = each_changed(spec, program, call, {name: arguments[name] for name in others})
    # What only goes along with others is left out where it is not certain.
    left_out = (PatchRefusedError,) if others else ()
    for name in (name for name in arguments if name in NEEDS_WORKERS):
        with contextlib.suppress(*left_out):
            edits |= _beside_workers(spec, program, call, name, arguments[name], edits)
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
    present = argument(call, name, None)
    # Asked for a second time it returns the same.
    is_there = present is not None and ast.unparse(present) == text
    absent = Decided(spec.defaults.get(name), program.span(call), name)
    if is_there or name != PERSISTENT or value is not True or not _is_variable(given):
        raise PatchRefusedError("no number of workers stands in the call itself")
    if decided(program, call, spec, name, bool) != absent:
        # To be False it may have been given for the case of no workers.
        raise PatchRefusedError(f"{name} is given, and so is a variable number of workers")
    return {name: AddKeyword(absent.place, name, text)}


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
    # dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn, pin_memory, ...
    # as it has had them since torch 1.0.
    positions={"num_workers": 5, "pin_memory": 7},
    defaults={"num_workers": 0, "pin_memory": False, PERSISTENT: False},
    refused={
        Context.ONE_PASS: "the loader is used for one pass only, so workers would not pay",
        Context.LOOP: "the loader is made in a loop, so workers would start each time",
    },
    alike="loader",
    plan=_planned,
)
