"""What events are called, as a person reads it and as analysis knows it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perftui.trace.model import ANNOTATION, CPU_OP

_VERSION = re.compile(r"(?:_pt[sd][sz])?(?:_v\d{4,5})?$")
"""``cudaMemcpy_ptds_v7000``: the API version that introduced a call, and whether the default stream
is the thread's own. ``cuMemcpyDtoH_v2`` has a name of its own."""

_DRIVER_CALL = re.compile(r"cu[A-Z]")

_CAST = re.compile(r"\((?:unsigned )?(?:int|long|bool|char|short)\)(?=-?\d)")
"""``(int)4``: how nsys spells a template argument that is a number."""

_OPERATOR_SUFFIX = re.compile(r", (?:seq|op_id) = -?\d+(?:, (?:op_id|sizes|input_op_ids) = .*)?$")
"""What ``torch.autograd.profiler.emit_nvtx`` appends to the name of what it marks (PyTorch,
``torch/csrc/profiler/util.cpp``, ``getNvtxStr``)."""

_OPERATOR = re.compile(r"[a-z_]\w*::\S|\w*Backward\d*$|detach_?$")
_DISPATCHED = re.compile(r"aten::\S")


@dataclass(frozen=True)
class Label:
    """Name and category of an event."""

    name: str
    category: str


def kernel_name(short: str | None, demangled: str | None) -> str:
    """The function with its template arguments: ``reduce_kernel<512, 1, at::MeanOps<float>>``.

    The short name alone would make one of all elementwise kernels; the demangled one begins with a
    return type and namespaces and ends with parameters, which distinguish nothing.
    """
    if not short or not demangled:
        return short or demangled or "unknown kernel"
    # The function's own name stands before its template arguments or parameters.
    found = re.search(rf"(?<!\w){re.escape(short)}(?!\w)", demangled)
    if found is None or demangled[found.end() : found.end() + 1] != "<":
        return short
    return _CAST.sub("", demangled[found.start() : _closed(demangled, found.end())])


def _closed(text: str, opened: int) -> int:
    """Index behind the ``>`` that closes the ``<`` at ``opened``, or the end where none does.

    What is in parentheses may hold comparisons, and does not count.
    """
    depth = parentheses = 0
    for index in range(opened, len(text)):
        letter = text[index]
        if letter in "([{":
            parentheses += 1
        elif letter in ")]}":
            parentheses -= 1
        elif parentheses == 0 and letter in "<>" and text[index - 1] != "-":
            depth += 1 if letter == "<" else -1
            if depth == 0:
                return index + 1
    return len(text)


def call_label(recorded: str | None) -> Label:
    """A call of the CUDA runtime or driver."""
    name = _VERSION.sub("", recorded) if recorded else "unknown call"
    return Label(name, "cuda_driver" if _DRIVER_CALL.match(name) else "cuda_runtime")


def copy_name(constant: str, source: str, destination: str) -> str:
    """Name of a copy as Kineto writes it: ``Memcpy HtoD (Pageable -> Device)``."""
    kind = constant.removeprefix("CUDA_MEMCPY_KIND_")
    unified = kind.startswith("UVM_")
    kind = kind.removeprefix("UVM_")
    between = re.fullmatch(r"(\w)TO(\w)", kind)
    kind = f"{between[1]}to{between[2]}" if between else kind.capitalize()
    words = ["Memcpy", *(["unified"] if unified else []), *([kind] if kind else [])]
    if source and destination:
        words.append(f"({source} -> {destination})")
    return " ".join(words)


def set_name(memory: str) -> str:
    """Name of a set as Kineto writes it: ``Memset (Device)``."""
    return f"Memset ({memory})" if memory else "Memset"


def range_label(text: str) -> Label:
    """An NVTX range: an operator where PyTorch marked one, else an annotation.

    Ranges that PyTorch marked carry numbers, which are left out: with them no two would share a
    name.
    """
    name = _OPERATOR_SUFFIX.sub("", text) if " = " in text else text
    marked = _OPERATOR if name != text else _DISPATCHED
    return Label(name, CPU_OP if marked.match(name) else ANNOTATION)
