"""What kind of work an event is: what the timeline colours and letters stand for."""

from __future__ import annotations

import enum
import re

import numpy as np

from perftui.trace.model import Ints, Trace


class EventKind(enum.Enum):
    """Kinds of work, each with the letter that draws it in ASCII and its word in the legend."""

    GEMM = ("G", "gemm/conv")
    ATTENTION = ("A", "attention")
    NORM = ("N", "norm")
    ELEMENTWISE = ("E", "elementwise")
    COMMUNICATION = ("C", "communication")
    COPY = ("M", "copy")
    OPTIMIZER = ("Z", "optimizer")
    KERNEL = ("K", "other kernel")
    OPERATOR = ("O", "operator")
    RUNTIME = ("R", "runtime call")
    WAIT = ("W", "wait")
    PYTHON = ("Y", "python")
    RANGE = ("U", "range")

    letter: str
    """One capital letter, different for each kind."""
    word: str
    """Its name in the legend."""
    style: str
    """Name of the style that draws it."""

    def __init__(self, letter: str, word: str) -> None:
        # Plain attributes: a frame asks for thousands, and a property takes ten times as long.
        self.letter, self.word = letter, word
        self.style = self.name.lower()


_KERNELS = (
    (
        EventKind.COMMUNICATION,
        re.compile(r"nccl|rccl|allreduce|all_reduce|allgather|reducescatter"),
    ),
    (EventKind.OPTIMIZER, re.compile(r"multi_tensor_apply|adam|sgd|optimizer")),
    (EventKind.ATTENTION, re.compile(r"flash|fmha|attention|attn|mha")),
    (
        EventKind.GEMM,
        re.compile(
            r"gemm|gemv|scudnn|hcudnn|nvjet|cutlass|wgmma|xmma|h884|h1688|16816|conv|dgrad|wgrad|winograd|cijk"
        ),
    ),
    (EventKind.NORM, re.compile(r"norm|bn_fw|bn_bw|softmax")),
    (
        EventKind.ELEMENTWISE,
        re.compile(r"elementwise|reduce|triton_|fused|index|copy|catarray|fill"),
    ),
)
"""Kernel names are not a standard: these are the families that cuBLAS, cuDNN, CUTLASS, NCCL,
FlashAttention, inductor and ATen give them. The first that matches wins."""

_BY_CATEGORY = {
    "gpu_memcpy": EventKind.COPY,
    "gpu_memset": EventKind.COPY,
    "cpu_op": EventKind.OPERATOR,
    "python_function": EventKind.PYTHON,
    "cuda_sync": EventKind.WAIT,
    "user_annotation": EventKind.RANGE,
    "gpu_user_annotation": EventKind.RANGE,
}

_WAIT = re.compile(r"synchronize|streamwaitevent", re.IGNORECASE)


def kind_of(category: str, name: str) -> EventKind:
    """The kind of one event by its category and, for kernels and calls, its name."""
    if category == "kernel":
        low = name.lower()
        return next((kind for kind, names in _KERNELS if names.search(low)), EventKind.KERNEL)
    if category.endswith(("_runtime", "_driver")):
        return EventKind.WAIT if _WAIT.search(name) else EventKind.RUNTIME
    return _BY_CATEGORY.get(category, EventKind.RANGE)


class KindsOfTrace:
    """The kind of any row of a trace; each pair of category and name is decided once."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._known: dict[int, EventKind] = {}

    def of(self, rows: Ints) -> list[EventKind]:
        """The kinds of several rows."""
        trace, known, count = self._trace, self._known, max(len(self._trace.names), 1)
        pairs = trace.category[rows].astype(np.int64) * count + trace.name[rows]
        found = pairs.tolist()
        for pair in set(found) - known.keys():
            known[pair] = kind_of(trace.categories[pair // count], trace.names[pair % count])
        return [known[pair] for pair in found]
