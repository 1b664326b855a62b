"""What kind of work an event is: what the timeline colours and letters stand for."""

from __future__ import annotations

import enum
import re

from perftui.trace.model import Trace


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

    @property
    def letter(self) -> str:
        """One capital letter, different for each kind."""
        return self.value[0]

    @property
    def word(self) -> str:
        """What the legend says."""
        return self.value[1]

    @property
    def style(self) -> str:
        """Name of the style that draws it."""
        return self.name.lower()


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
        self._known: dict[tuple[int, int], EventKind] = {}

    def __getitem__(self, row: int) -> EventKind:
        trace = self._trace
        pair = (int(trace.category[row]), int(trace.name[row]))
        kind = self._known.get(pair)
        if kind is None:
            kind = kind_of(trace.categories[pair[0]], trace.names[pair[1]])
            self._known[pair] = kind
        return kind
