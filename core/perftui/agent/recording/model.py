"""Facts about the modules that a script trains, and about their optimizers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
"""Classes of torch that train a module on several devices, with the attributes worth noting."""

COMPILED = "OptimizedModule", "torch._dynamo.eval_frame"
"""Class that ``torch.compile`` wraps a module in: its name and module."""

LONGEST = 200
"""Most characters of an attribute that is no plain value."""

COUNTS = ("tensors", "trained", "elements", "tables", "unused", "unused_elements")
"""Counts for one data type on one device; ``tables`` is in elements."""


def all_modules(roots: Iterable[Any]) -> list[Any]:
    """All submodules of ``roots``, without repeats."""
    return list({id(module): module for root in roots for module in root.modules()}.values())


def wrappers(modules: Iterable[Any]) -> list[dict[str, Any]]:
    """Kinds of wrapper among ``modules``: class, settings, count."""
    rows: dict[str, dict[str, Any]] = {}
    names: dict[type, str | None] = {}
    for module in modules:
        kind = type(module)
        if kind not in names:
            bases = (base.__name__ for base in kind.__mro__ if base.__module__.startswith("torch."))
            names[kind] = next((name for name in bases if name in WRAPPERS), None)
        name = names[kind]
        if name is not None:
            arguments = {key: _plain(attempt(getattr, module, key)) for key in WRAPPERS[name]}
            row = {"name": name, "count": 0, "arguments": arguments}
            rows.setdefault(repr(row), row)["count"] += 1
    return list(rows.values())


def parameters(
    torch: Any, modules: Iterable[Any], optimizers: Iterable[Any], left: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Parameter counts by data type and device.

    ``unused`` have a gradient that is not ``left``, and are in no optimizer; ``tables`` are those
    of embeddings with dense gradients that no other module uses.
    """
    embeddings = torch.nn.Embedding, torch.nn.EmbeddingBag
    of_tables = [module for module in modules if isinstance(module, embeddings)]
    others = own_parameters(module for module in modules if not isinstance(module, embeddings))
    tables = own_parameters(module for module in of_tables if not module.sparse).keys() - others
    rows: dict[tuple[Any, Any], dict[str, Any]] = {}
    optimized = {id(tensor): tensor for optimizer in optimizers for tensor in held_by(optimizer)}
    with torch._C.DisableTorchFunction():
        beyond = unused(modules, optimizers, left)
        for number, parameter in {**own_parameters(modules), **optimized}.items():
            row = rows.setdefault((parameter.dtype, parameter.device), dict.fromkeys(COUNTS, 0))
            # An uninitialised parameter has no size.
            elements = attempt(parameter.numel) or 0
            row["tensors"] += 1
            row["trained"] += bool(parameter.requires_grad)
            row["elements"] += elements
            row["tables"] += elements if number in tables and parameter.requires_grad else 0
            if number in beyond:
                row["unused"] += 1
                row["unused_elements"] += elements
    return [
        {"dtype": str(dtype).removeprefix("torch."), "device": str(device), **row}
        for (dtype, device), row in rows.items()
    ]


def untrained(
    torch: Any,
    called: Mapping[Any, CallSite | None],
    optimizers: Iterable[Any],
    left: Mapping[int, int],
) -> list[dict[str, Any]]:
    """The outermost modules of which each parameter with ``requires_grad`` has a gradient now, and
    is in no optimizer: path in the module that the script calls, class, and where it calls that."""
    rows: list[dict[str, Any]] = []
    with torch._C.DisableTorchFunction():
        every = unused(all_modules(called), optimizers, left)
        for root, site in called.items() if every else ():
            known: set[Any] = set()
            for path, module in root.named_modules():
                if module in known:
                    continue
                inside = own_parameters(module.modules()).items()
                trained = {number for number, parameter in inside if parameter.requires_grad}
                if trained <= every.keys() or trained.isdisjoint(every):
                    known.update(module.modules())
                if trained and trained <= every.keys():
                    place = {"file": site.file, "line": site.line} if site else {}
                    rows.append({"path": path, "name": type(module).__name__, **place})
    return rows


def unused(
    modules: Iterable[Any], optimizers: Iterable[Any], left: Mapping[int, int] | None = None
) -> dict[int, Any]:
    """Parameters of ``modules`` by id that are in no optimizer and have a gradient now, other than
    one that was ``left`` (``gradients``) by a training before."""
    held = {id(tensor) for optimizer in optimizers for tensor in held_by(optimizer)}
    others = {key: one for key, one in own_parameters(modules).items() if key not in held}
    written = gradients(others).items()
    return {key: others[key] for key, times in written if times != (left or {}).get(key)}


def gradients(parameters: Mapping[int, Any]) -> dict[int, int]:
    """How often the gradient of each of ``parameters`` was written to, without those of none."""
    leaves = ((key, one) for key, one in parameters.items() if one.is_leaf)
    return {key: one.grad._version for key, one in leaves if one.grad is not None}


def is_compiled(modules: Iterable[Any]) -> bool:
    """Whether ``torch.compile`` was given any of the modules; functions are not seen."""
    return any(
        getattr(module, "_compiled_call_impl", None) is not None
        or (type(module).__name__, type(module).__module__) == COMPILED
        for module in modules
    )


def own_parameters(modules: Iterable[Any]) -> dict[int, Any]:
    """Direct parameters of ``modules`` by id, without those of submodules."""
    owned = (parameter for module in modules for parameter in module._parameters.values())
    return {id(parameter): parameter for parameter in owned if parameter is not None}


def held_by(optimizer: Any) -> Iterator[Any]:
    """The parameters of ``optimizer``."""
    for group in optimizer.param_groups:
        yield from group["params"]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)[:LONGEST]


MOST_OPTIMIZERS = 32
"""Most optimizers that are noted."""

OPTIONS = ("fused", "foreach", "capturable", "differentiable")


def in_force(optimizer: Any, name: str) -> Any:
    """The option ``name`` if all groups of ``optimizer`` agree, else None."""
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
        "parameters": attempt(lambda: sum(len(g["params"]) for g in optimizer.param_groups)),
    }
