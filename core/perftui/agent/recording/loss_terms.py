"""Terms of a loss that are multiplied by 0, seen in the graph before a backward pass runs.

No operator of torch runs, and nothing that hooks of the user have packed is unpacked: only numbers
that Python multiplied by are read, which torch keeps on the CPU.
"""

from __future__ import annotations

import ctypes
from typing import Any

MOST_NODES = 4_000
"""Nodes of a graph that are looked at, 1 us each; larger ones are not."""

MOST_RANGES = 64

TYPES: dict[str, Any] = {"torch.float64": ctypes.c_double, "torch.int64": ctypes.c_int64}
"""Types of the tensors in which torch keeps numbers of Python."""


def terms_times_zero(torch: Any, outputs: Any) -> dict[str, Any] | None:
    """The data of a ``zero_terms`` note: how many nodes the graph of the only one of ``outputs``
    has, and which of them only serve terms that are multiplied by 0, as ranges of sequence numbers
    counted back from the first node. None if the graph is not looked at."""
    with torch._C.DisableTorchFunction():
        root = outputs[0].grad_fn if len(outputs) == 1 else None
        if root is None:
            return None
        live: dict[int, Any] = {}
        dead: list[Any] = []
        _reach([root], live, dead)
        below = dict(live)
        _reach(dead, below, None)
        if len(below) > MOST_NODES:
            return None
        first = root._sequence_nr()
        back = {at: first - node._sequence_nr() for at, node in below.items()}
    # Nodes that accumulate gradients have the highest numbers of all.
    back = {at: offset for at, offset in back.items() if offset >= 0}
    ranges: list[list[int]] = []
    for offset in sorted(offset for at, offset in back.items() if at not in live):
        if ranges and offset <= ranges[-1][1] + 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    return {"nodes": len(back), "ranges": ranges} if len(ranges) <= MOST_RANGES else None


def _reach(start: list[Any], seen: dict[int, Any], dead: list[Any] | None) -> None:
    """Add all nodes that are reached to ``seen``, which holds them: that keeps their identity. What
    is below a multiplication by 0 is added to ``dead`` instead, if that is given."""
    waiting = list(start)
    while waiting and len(seen) <= MOST_NODES:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        into = dead if dead is not None and _is_times_zero(node) else waiting
        into += [below for below, _ in node.next_functions if below is not None]


def _is_times_zero(node: Any) -> bool:
    if type(node).__name__ != "MulBackward0":
        return False
    for name in ("_raw_saved_self", "_raw_saved_other"):
        saved = getattr(node, name)
        # Older versions of torch do not show whether hooks have packed it.
        if getattr(saved, "unpack_hook", saved) is not None or saved.data is None:
            continue
        factor = saved.data
        # Subclasses may be fakes, or have no memory of their own.
        is_number = type(factor).__name__ == "Tensor" and factor.dim() == 0
        kind: Any = TYPES.get(str(factor.dtype)) if is_number else None
        is_here = kind is not None and factor.device.type == "cpu"
        at = factor.data_ptr() if is_here and not factor.requires_grad else 0
        if at and kind.from_address(at).value == 0:
            return True
    return False
