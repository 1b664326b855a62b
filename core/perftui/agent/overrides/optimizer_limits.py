"""Why an optimizer of torch cannot be made with another implementation of its step.

Torch raises for some of it in the constructor, for the rest in the first step.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..safety.signal_handlers import attempt

CHANGEABLE = {"fused": "foreach", "foreach": "fused"}
"""The arguments that change how a step is computed, not what; and the one that excludes each."""

SPARSE_UNLESS_FUSED = frozenset({"SGD", "Adagrad"})
"""Classes that take sparse gradients, but not with fused kernels."""

DISPATCHED = frozenset({"cpu", "cuda", "mps", "xpu"})
"""Devices of which torch reports whether it has a kernel for them."""


def why_not(
    torch: Any, kind: type, own_kind: type, name: str, value: Any, given: Mapping[str, Any]
) -> str | None:
    """Why the argument ``name`` of ``CHANGEABLE`` cannot be ``value``, None where it can.

    ``kind`` is the class of torch, ``own_kind`` that of the object, ``given`` are the arguments of
    the constructor by name.
    """
    if not isinstance(value, bool):
        return f"{value!r} is neither True nor False"
    groups = [group for group in given.get("params") or () if isinstance(group, dict)]
    if any(group.get(name, value) != value for group in groups):
        return "a parameter group sets it to another value"
    return _why_not_on(torch, kind, own_kind, name, given, groups) if value else None


def _why_not_on(
    torch: Any,
    kind: type,
    own_kind: type,
    name: str,
    given: Mapping[str, Any],
    groups: list[Any],
) -> str | None:
    settings = (given, *groups)
    if any(one.get(CHANGEABLE[name]) for one in settings):
        return f"{CHANGEABLE[name]} is set and excludes it"
    if any(one.get("differentiable") for one in settings):
        return "the optimizer is differentiable"
    if not _steps_as_torch_does(own_kind):
        return f"{own_kind.__name__} overrides step()"
    if name == "foreach":
        if any(_holds_tensor(torch, one) and not one.get("capturable") for one in settings):
            return "lr or betas are tensors, which requires capturable"
        return None
    return _why_not_fused(torch, kind, list(_tensors(torch, given.get("params"))))


def _why_not_fused(torch: Any, kind: type, tensors: list[Any]) -> str | None:
    devices = set()
    with torch._C.DisableTorchFunction():
        for tensor in tensors:
            if not torch.is_floating_point(tensor):
                return f"a parameter is {tensor.dtype}, which is not floating point"
            devices.add(tensor.device.type)
    for device in sorted(devices):
        if not _has_kernel(torch, kind, device):
            return f"torch has no fused {kind.__name__} for {device}"
    if kind.__name__ in SPARSE_UNLESS_FUSED and _have_sparse_gradients(torch, tensors):
        return "an embedding's gradients are sparse"
    return None


def _has_kernel(torch: Any, kind: type, device: str) -> bool:
    module = sys.modules[torch.optim.Optimizer.__module__]
    supported = getattr(module, "_get_fused_kernels_supported_devices", lambda: ["cuda"])()
    if device not in supported:
        return False
    if device not in DISPATCHED:
        return True
    name = f"aten::_fused_{kind.__name__.lower()}_"
    return bool(attempt(torch._C._dispatch_has_kernel_for_dispatch_key, name, device.upper()))


def _have_sparse_gradients(torch: Any, tensors: list[Any]) -> bool:
    """Whether a live embedding of ``tensors`` makes sparse ones; its module alone knows."""
    ours = set(map(id, tensors))
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    # By type, not isinstance: that would ask objects of the script for their class.
    found = (one for one in gc.get_objects() if issubclass(type(one), kinds))
    return any(one.sparse and id(one.weight) in ours for one in found)


def _steps_as_torch_does(kind: type) -> bool:
    owner = next((one for one in kind.__mro__ if "step" in vars(one)), None)
    return owner is not None and owner.__module__.startswith("torch.optim")


def _holds_tensor(torch: Any, settings: Mapping[str, Any]) -> bool:
    betas = settings.get("betas")
    values = (settings.get("lr"), *(betas if isinstance(betas, (tuple, list)) else ()))
    return any(isinstance(value, torch.Tensor) for value in values)


def _tensors(torch: Any, params: Any) -> Iterator[Any]:
    """The parameters in what a constructor is given: tensors, pairs with names, or groups."""
    if isinstance(params, torch.Tensor):
        yield params
        return
    for one in params or ():
        if isinstance(one, dict):
            yield from _tensors(torch, one.get("params"))
        elif isinstance(one, tuple):
            yield from (part for part in one if isinstance(part, torch.Tensor))
        elif isinstance(one, torch.Tensor):
            yield one
