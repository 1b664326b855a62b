"""What is known of the modules that a script trains: their parameters and what wraps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .flags import read

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
"""Classes of torch that train a module on several devices, with attributes that say how."""

LONGEST = 200
"""Characters of an attribute that is no plain value."""


def wrappers(modules: Iterable[Any]) -> list[dict[str, Any]]:
    """Each kind of wrapper among ``modules`` and those in them, how it is set, and how many."""
    found: dict[str, dict[str, Any]] = {}
    for module in _all(modules):
        name = _wrapper(type(module))
        if name is not None:
            arguments = _attributes(module, WRAPPERS[name])
            row = {"name": name, "count": 0, "arguments": arguments}
            found.setdefault(repr(row), row)["count"] += 1
    return list(found.values())


def parameters(
    torch: Any, modules: Iterable[Any], optimizers: Iterable[Any]
) -> list[dict[str, Any]]:
    """How many parameters there are of each data type on each device."""
    seen: set[int] = set()
    found: dict[tuple[str, str], dict[str, Any]] = {}
    with torch._C.DisableTorchFunction():
        for parameter in _parameters(modules, optimizers):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            key = str(parameter.dtype).removeprefix("torch."), str(parameter.device)
            row = found.setdefault(
                key,
                {"dtype": key[0], "device": key[1], "tensors": 0, "trained": 0, "elements": 0},
            )
            row["tensors"] += 1
            row["trained"] += bool(parameter.requires_grad)
            # One that is not initialised yet has no size.
            row["elements"] += read(parameter.numel) or 0
    return list(found.values())


def is_compiled(modules: Iterable[Any]) -> bool:
    """Whether ``torch.compile`` was given any of the modules; functions are not seen."""
    return any(
        getattr(module, "_compiled_call_impl", None) is not None
        or (type(module).__name__, type(module).__module__)
        == ("OptimizedModule", "torch._dynamo.eval_frame")
        for module in _all(modules)
    )


def _all(modules: Iterable[Any]) -> Iterator[Any]:
    for module in modules:
        yield from module.modules()


def _parameters(modules: Iterable[Any], optimizers: Iterable[Any]) -> Iterator[Any]:
    for module in modules:
        yield from module.parameters()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]


def _wrapper(kind: type) -> str | None:
    names = (one.__name__ for one in kind.__mro__ if one.__module__.startswith("torch."))
    return next((name for name in names if name in WRAPPERS), None)


def _attributes(module: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: _plain(read(getattr, module, name)) for name in names}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)[:LONGEST]
