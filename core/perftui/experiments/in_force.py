"""What the training of two runs is set up with, where that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, fact
from perftui.facts.settings import OptimizerSettings, Settings, settings

LOADER_ARGUMENTS = (
    "num_workers",
    "pin_memory",
    "persistent_workers",
    "prefetch_factor",
    "batch_size",
)
OPTIMIZER_ARGUMENTS = ("class_name", "fused", "foreach", "capturable")


InForce = Mapping[str, Any]
"""Values by name, as far as they are known; those of a loader or an optimizer may be None."""


def effective_changes(before: Facts, after: Facts) -> tuple[str, ...]:
    """Arguments of the training's loader and optimizer, threads and precision that are in force and
    differ: ``num_workers 0 -> 2``, ``autocast none seen -> cuda bfloat16``."""
    return in_force_changes(in_force(before), in_force(after))


def in_force_changes(before: InForce, after: InForce) -> tuple[str, ...]:
    """The same, of values that are kept."""
    return tuple(
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    )


@fact
def in_force(run: Facts) -> InForce:
    """What the training is set up with."""
    known, loader = settings(run), training_loader(run)
    optimizer = _optimizer(known)
    return {
        **{name: getattr(loader, name) for name in LOADER_ARGUMENTS if loader},
        **{name: getattr(optimizer, name) for name in OPTIMIZER_ARGUMENTS if optimizer},
        **(dict(_switches(known)) if known else {}),
    }


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
