"""What kind of work an event is, or which phase: the words, letters and colours for it."""

from __future__ import annotations

import enum
import re

import numpy as np

from perftui.analysis.kinds import COMMUNICATION_KERNEL, OWN_MARK
from perftui.run.columns import phase_name
from perftui.trace.model import Ints, Trace
from perftui_tui.reading.step_breakdown import TRACE_STYLES


class EventKind(enum.Enum):
    """Kinds of work: the letter in ASCII, the word in the legend, colours on dark, light and ANSI.

    On dark: Okabe and Ito's hues, spread in lightness. On light: the same hues darkened to a
    contrast of 4.5 with white. With 16 colours kinds that share a device track have each their own.
    """

    GEMM = ("G", "gemm/conv", "#56b4e9", "#0063a0", "ansi_cyan")
    ATTENTION = ("A", "attention", "#cc79a7", "#94396d", "ansi_magenta")
    NORM = ("N", "norm", "#f0e442", "#6b6400", "ansi_bright_yellow")
    ELEMENTWISE = ("E", "elementwise", "#2fb98f", "#00674a", "ansi_green")
    COMMUNICATION = ("C", "communication", "#ff7f50", "#b03a00", "ansi_red")
    COPY = ("M", "copy", "#e69f00", "#8a5a00", "ansi_yellow")
    OPTIMIZER = ("Z", "optimizer", "#b9a7f0", "#5b3fb0", "ansi_bright_blue")
    KERNEL = ("K", "other kernel", "#d5dbe0", "#3d444b", "ansi_white")
    OPERATOR = ("O", "operator", "#7fa8c9", "#2f5f86", "ansi_blue")
    RUNTIME = ("R", "runtime call", "#8c959d", "#5c646b", "ansi_bright_black")
    WAIT = ("W", "wait", "#ff9d9d", "#b3261e", "ansi_bright_red")
    PYTHON = ("Y", "python", "#9ccc65", "#45701c", "ansi_bright_green")
    RANGE = ("U", "range", "#b0a08a", "#6a5a44", "ansi_bright_magenta")

    letter: str
    """One capital letter, different for each kind."""
    word: str
    """The kind's name in the legend."""
    colours: tuple[str, ...]
    """On dark, on light, and of the terminal's sixteen."""
    style: str
    """Name of the style that draws it."""

    def __init__(self, letter: str, word: str, *colours: str) -> None:
        # Plain attributes: a frame asks for thousands, and a property takes ten times as long.
        self.letter, self.word, self.colours = letter, word, colours
        self.style = self.name.lower()


_KERNELS = {
    EventKind.OPTIMIZER: r"multi_tensor_apply|adam|sgd|optimizer",
    EventKind.ATTENTION: r"flash|fmha|attention|attn|mha",
    EventKind.GEMM: r"gemm|gemv|scudnn|hcudnn|nvjet|cutlass|wgmma|xmma|h884|h1688|16816|conv|dgrad"
    r"|wgrad|winograd|cijk",
    EventKind.NORM: r"norm|bn_fw|bn_bw|softmax",
    EventKind.ELEMENTWISE: r"elementwise|reduce|triton_|fused|index|copy|catarray|fill",
}
"""Kernel names are not a standard: these are the families that cuBLAS, cuDNN, CUTLASS,
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
        if COMMUNICATION_KERNEL.search(name):
            return EventKind.COMMUNICATION
        low = name.lower()
        found = (kind for kind, names in _KERNELS.items() if re.search(names, low))
        return next(found, EventKind.KERNEL)
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


def phase_label(name: str) -> str:
    """The name of a phase on screen; ``name`` may have the prefix of the agent's marks."""
    return phase_name(name.removeprefix(OWN_MARK))


def phase_style(name: str) -> str:
    """The end of the names of its styles: ``part-...`` is the ground, ``phase-...`` its colour."""
    return TRACE_STYLES.get(name.removeprefix(OWN_MARK), "other")
