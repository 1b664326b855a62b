"""What is known of the modules that a script trains, and of their optimizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..hooks.call_site import CallSite
from ..safety.signal_handlers import attempt

WRAPPERS = {
    "DistributedDataParallel": (
        "bucket_bytes_cap",
        "find_unused_parameters",
        "gradient_as_bucket_view",
        "static_graph",
        "broadcast_buffers",
    ),
    "DataParallel": ("device_ids", "output_device", "dim"),
    "FullyShardedDataParallel": (
        "sharding_strategy",
        "limit_all_gathers",
        "forward_prefetch",
        "backward_prefetch",
        "mixed_precision",
        "cpu_offload",
    ),
    "FSDPModule": (),
}
"""Classes of torch that train a module on several devices, with the attributes that define how."""

COMPILED = "OptimizedModule", "torch._dynamo.eval_frame"
"""What ``torch.compile`` makes of a module: the class and where it is defined."""

LONGEST = 200
"""Characters of an attribute that is no plain value."""

COUNTS = ("tensors", "trained", "elements", "largest", "unused", "unused_elements")
"""What is noted of the parameters of one data type on one device; ``largest`` is in elements."""


def all_modules(roots: Iterable[Any]) -> list[Any]:
    """All submodules of ``roots``, without repeats."""
    found = {id(module): module for root in roots for module in root.modules()}
    return list(found.values())


def wrappers(modules: Iterable[Any]) -> list[dict[str, Any]]:
    """Each kind of wrapper among ``modules``, how it is set, and how many there are."""
    found: dict[str, dict[str, Any]] = {}
    names: dict[type, str | None] = {}
    for module in modules:
        kind = type(module)
        if kind not in names:
            bases = (one.__name__ for one in kind.__mro__ if one.__module__.startswith("torch."))
            names[kind] = next((name for name in bases if name in WRAPPERS), None)
        name = names[kind]
        if name is not None:
            arguments = {key: _plain(attempt(getattr, module, key)) for key in WRAPPERS[name]}
            row = {"name": name, "count": 0, "arguments": arguments}
            found.setdefault(repr(row), row)["count"] += 1
    return list(found.values())


def parameters(
    torch: Any, modules: Iterable[Any], optimizers: Iterable[Any]
) -> list[dict[str, Any]]:
    """How many parameters there are of each data type on each device.

    ``unused`` have a gradient just now, and are in no optimizer.
    """
    found: dict[tuple[Any, Any], dict[str, Any]] = {}
    held = {id(one): one for optimizer in optimizers for one in held_by(optimizer)}
    with torch._C.DisableTorchFunction():
        for number, parameter in {**own_parameters(modules), **held}.items():
            row = found.setdefault((parameter.dtype, parameter.device), dict.fromkeys(COUNTS, 0))
            # One that is not initialised yet has no size.
            elements = attempt(parameter.numel) or 0
            row["tensors"] += 1
            row["trained"] += bool(parameter.requires_grad)
            row["elements"] += elements
            row["largest"] = max(row["largest"], elements)
            if number not in held and parameter.is_leaf and parameter.grad is not None:
                row["unused"] += 1
                row["unused_elements"] += elements
    return [
        {"dtype": str(dtype).removeprefix("torch."), "device": str(device), **row}
        for (dtype, device), row in found.items()
    ]


def is_compiled(modules: Iterable[Any]) -> bool:
    """Whether ``torch.compile`` was given any of the modules; functions are not seen."""
    return any(
        getattr(module, "_compiled_call_impl", None) is not None
        or (type(module).__name__, type(module).__module__) == COMPILED
        for module in modules
    )


def own_parameters(modules: Iterable[Any]) -> dict[int, Any]:
    """The parameters of ``modules`` themselves, without those inside, by their ids."""
    owned = (one for module in modules for one in module._parameters.values())
    return {id(one): one for one in owned if one is not None}


def held_by(optimizer: Any) -> Iterator[Any]:
    """The parameters of ``optimizer``."""
    for group in optimizer.param_groups:
        yield from group["params"]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)[:LONGEST]


MOST_OPTIMIZERS = 32
"""Optimizers that are noted."""

OPTIONS = ("fused", "foreach", "capturable", "differentiable")


def in_force(optimizer: Any, name: str) -> Any:
    """The option ``name`` of all groups of ``optimizer``; None where they differ."""
    values = {repr(group.get(name)): group.get(name) for group in optimizer.param_groups}
    return next(iter(values.values())) if len(values) == 1 else None


def optimizer_settings(optimizer: Any, site: CallSite | None) -> dict[str, Any]:
    """The settings of ``optimizer``, which was made at ``site``."""
    kind = type(optimizer)
    return {
        "name": f"{kind.__module__}.{kind.__qualname__}",
        "file": site.file if site else None,
        "line": site.line if site else None,
        "end_line": site.end_line if site else None,
        **{name: attempt(in_force, optimizer, name) for name in OPTIONS},
        "groups": attempt(lambda: len(optimizer.param_groups)),
        "parameters": attempt(lambda: sum(len(one["params"]) for one in optimizer.param_groups)),
    }
