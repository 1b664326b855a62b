"""What the training of two runs is set up with, where that differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts
from perftui.facts.settings import OptimizerSettings, Settings, settings

LOADER_ARGUMENTS = (
    "num_workers",
    "pin_memory",
    "persistent_workers",
    "prefetch_factor",
    "batch_size",
)
OPTIMIZER_ARGUMENTS = ("class_name", "fused", "foreach", "capturable")


def effective_changes(before: Facts, after: Facts) -> tuple[str, ...]:
    """Arguments of the training's loader and optimizer, threads and precision that are in force and
    differ: ``num_workers 0 -> 2``, ``autocast none seen -> cuda bfloat16``."""
    known = settings(before), settings(after)
    pairs = (
        (LOADER_ARGUMENTS, training_loader(before), training_loader(after)),
        (OPTIMIZER_ARGUMENTS, _optimizer(known[0]), _optimizer(known[1])),
    )
    of_calls = (
        f"{name} {old} -> {new}"
        for names, first, second in pairs
        if first is not None and second is not None
        for name in names
        if (old := getattr(first, name)) != (new := getattr(second, name))
    )
    first, second = (dict(_switches(one)) if one else {} for one in known)
    of_torch = (
        f"{name} {first[name]} -> {second[name]}"
        for name in first
        if name in second and first[name] != second[name]
    )
    return (*of_calls, *of_torch)


def _optimizer(known: Settings | None) -> OptimizerSettings | None:
    """The optimizer with most tensors."""
    made = known.optimizers or () if known else ()
    return max(made, key=lambda one: one.parameters or 0, default=None)


def _switches(known: Settings) -> Iterator[tuple[str, Any]]:
    """Threads, precision and modes by name, as far as they are known."""
    threads, matmul, cudnn, modes = known.threads, known.matmul, known.cudnn, known.modes
    named = (
        ("threads", threads and threads.intra_op),
        ("threads between operators", threads and threads.inter_op),
        ("float32 products", matmul and matmul.float32_precision),
        ("TensorFloat-32 in convolutions", matmul and matmul.cudnn_allow_tf32),
        ("default dtype", modes and modes.default_dtype),
        ("parameters", _dtypes(known)),
        ("autocast", _autocast(known)),
        ("cuDNN benchmark", cudnn and cudnn.benchmark),
        ("deterministic", modes and modes.deterministic),
        ("anomaly detection", modes and modes.anomaly),
        ("compiled", known.compiled),
    )
    yield from ((name, value) for name, value in named if value is not None)


def _dtypes(known: Settings) -> str | None:
    """Data types of the parameters, that of the most elements first."""
    elements: dict[str, int] = {}
    for one in known.parameters or ():
        elements[one.dtype] = elements.get(one.dtype, 0) + one.elements
    return ", ".join(sorted(elements, key=lambda dtype: -elements[dtype])) or None


def _autocast(known: Settings) -> str:
    """A model that casts within its own forward is not seen from outside."""
    cast = (known.autocast or {}).items()
    return ", ".join(f"{device} {dtype}" for device, dtype in cast) or "none seen"
