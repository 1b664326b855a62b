"""What backward passes begin from: losses of a trial, to compare its runs, and terms of a loss that
are multiplied by 0, seen in the graph before.

For the terms no operator of torch runs, and nothing that hooks of the user have packed is unpacked:
only numbers that Python multiplied by are read, which torch keeps on the CPU.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ..hooks.watch import put_around

if TYPE_CHECKING:
    from .session import Session

MOST_PASSES = 64
"""Backward passes of one step on average: a script without steps of an optimizer has one step."""


class Losses:
    """Keeps the losses of the first ``count`` steps with a backward pass, and notes them together.

    Copies stay on their device until then: reading one would wait for the GPU.
    """

    def __init__(self, torch: Any, session: Session, count: int) -> None:
        self._torch = torch
        self._session = session
        self._count = count
        self._losses: dict[int, list[Any]] = {}
        """Losses by number of the step."""
        self._passes = 0
        self._is_noted = False

    def arm(self) -> None:
        """Listen to ``torch.autograd.backward``, which ``loss.backward()`` calls, too."""
        autograd = self._torch.autograd
        autograd.backward = put_around(self._torch, autograd.backward, self._enter)

    def _enter(self, args: Any, kwargs: Any) -> None:
        recording = self._session.recording
        if self._is_noted or recording is None:
            return
        step = recording.index
        if step not in self._losses and len(self._losses) >= self._count:
            self._note()
            return
        tensors = args[0] if args else (kwargs or {}).get("tensors")
        first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        if not isinstance(first, self._torch.Tensor) or first.numel() != 1:
            return
        self._passes += 1
        if self._passes <= self._count * MOST_PASSES:
            self._losses.setdefault(step, []).append(first.detach().clone())

    def _note(self) -> None:
        """Write the sum of each step's losses: a step may run a backward pass for each."""
        self._is_noted = True
        values = [sum(map(float, losses)) for losses in self._losses.values()]
        self._losses.clear()
        # JSON has no NaN and no infinity.
        texts = [value if value - value == 0 else str(value) for value in values]
        self._session.notes.write("losses", {"values": texts})


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
