"""Tries other implementations of an optimizer's step for one run, where its rules stay the same.

Results differ by rounding only, as they do between GPUs.
"""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..hooks.call_site import CallSite, find_call_site
from ..hooks.watch import put_around
from ..recording.model import in_force
from ..safety.signal_handlers import attempt
from .request import Outcome, Request, wanted

if TYPE_CHECKING:
    from ..recording.session import Session

CHANGEABLE = {"fused": "foreach", "foreach": "fused"}
"""Arguments that change how a step is computed, not its result; and the one that excludes each."""

SPARSE_UNLESS_FUSED = frozenset({"SGD", "Adagrad"})
"""Classes that take sparse gradients, but not with fused kernels."""

DISPATCHED = frozenset({"cpu", "cuda", "mps", "xpu"})
"""Devices of which torch reports whether it has a kernel for them."""


def why_not_implemented(
    torch: Any, kind: type, own_kind: type, name: str, value: Any, arguments: Mapping[str, Any]
) -> str | None:
    """Why the argument ``name`` of ``CHANGEABLE`` cannot be ``value``, None where it can.

    ``kind`` is the class of torch, ``own_kind`` that of the object, ``arguments`` are those of the
    constructor by name. Torch raises for some of it in the constructor, for the rest in the first
    step.
    """
    if not isinstance(value, bool):
        return f"{value!r} is neither True nor False"
    groups = [group for group in arguments.get("params") or () if isinstance(group, dict)]
    if any(group.get(name, value) != value for group in groups):
        return "a parameter group sets it to another value"
    return _why_not_on(torch, kind, own_kind, name, (arguments, *groups)) if value else None


def _why_not_on(
    torch: Any, kind: type, own_kind: type, name: str, settings: tuple[Mapping[str, Any], ...]
) -> str | None:
    """``settings`` are the arguments and the parameter groups."""
    if any(group.get(CHANGEABLE[name]) for group in settings):
        return f"{CHANGEABLE[name]} is set and excludes it"
    if any(group.get("differentiable") for group in settings):
        return "the optimizer is differentiable"
    owner = next((base for base in own_kind.__mro__ if "step" in vars(base)), None)
    if owner is None or not owner.__module__.startswith("torch.optim"):
        return f"{own_kind.__name__} overrides step()"
    if name == "foreach":
        if any(_holds_tensor(torch, group) and not group.get("capturable") for group in settings):
            return "lr or betas are tensors, which requires capturable"
        return None
    return _why_not_fused(torch, kind, list(_tensors(torch, settings[0].get("params"))))


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
    """Whether a live embedding with one of ``tensors`` is sparse; only the module knows."""
    ours = set(map(id, tensors))
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    # By type, not isinstance: that would ask objects of the script for their class.
    embeddings = (thing for thing in gc.get_objects() if issubclass(type(thing), kinds))
    return any(embedding.sparse and id(embedding.weight) in ours for embedding in embeddings)


def _holds_tensor(torch: Any, settings: Mapping[str, Any]) -> bool:
    betas = settings.get("betas")
    values = (settings.get("lr"), *(betas if isinstance(betas, (tuple, list)) else ()))
    return any(isinstance(value, torch.Tensor) for value in values)


def _tensors(torch: Any, params: Any) -> Iterator[Any]:
    """Parameters in a constructor's argument: tensors, pairs with names, or groups."""
    if isinstance(params, torch.Tensor):
        yield params
        return
    for group in params or ():
        if isinstance(group, dict):
            yield from _tensors(torch, group.get("params"))
        elif isinstance(group, tuple):
            yield from (part for part in group if isinstance(part, torch.Tensor))
        elif isinstance(group, torch.Tensor):
            yield group


class Overrides:
    """Overrides of the arguments of optimizers of ``torch.optim``, bound to the calls they name."""

    def __init__(self, torch: Any, kind: Any, requests: list[Request]) -> None:
        """``kind`` is the class whose constructor is called; the base class takes no overrides."""
        self._torch = torch
        self._kind = kind
        self._signature = inspect.signature(kind.__init__)
        self._requests = requests
        self._making: dict[int, tuple[CallSite | None, Outcome]] = {}

    def begin(
        self, _: Session, optimizer: Any, args: Any, kwargs: Any, site: CallSite | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The optimizer's arguments with overrides applied, None where there are no overrides.

        Arguments that do not fit the constructor are left for it to complain about.
        """
        requests = wanted(self._requests, site)
        if not requests:
            return None
        try:
            bound = self._signature.bind(optimizer, *args, **kwargs).arguments
        except TypeError:
            return None
        if isinstance(bound["params"], self._torch.Tensor):
            return None
        outcome = Outcome({}, requests)
        why_not = partial(self._why_not, type(optimizer))
        # Arguments to turn off come first: only then may the other be on.
        outcome.decide(bound, why_not, lambda _, value: bool(value))
        self._making[id(optimizer)] = site, outcome
        return args, {**kwargs, **outcome.applied}

    def _why_not(self, kind: type, name: str, value: Any, arguments: dict[str, Any]) -> str | None:
        if name not in CHANGEABLE:
            return "changes how the weights are updated"
        if name not in self._signature.parameters:
            return f"{kind.__name__} does not take it"
        return why_not_implemented(self._torch, self._kind, kind, name, value, arguments)

    def end(self, session: Session, optimizer: Any) -> None:
        """Report the outcome of each override that is meant for the optimizer."""
        site, outcome = self._making.pop(id(optimizer), (None, None))
        if outcome is not None:
            outcome.report(session.overrides, site, lambda name: in_force(optimizer, name))


class Sites:
    """Remembers where optimizers are made, and refuses arguments that their classes do not take."""

    def __init__(self, requests: list[Request]) -> None:
        self.requests = requests
        self.making: set[int] = set()
        """Ids of optimizers whose own constructor handles the overrides."""

    def end(self, session: Session, optimizer: Any) -> None:
        """The base class's constructor of ``optimizer`` has returned."""
        site = find_call_site()
        session.optimizer_sites[optimizer] = site
        if id(optimizer) in self.making:
            return
        for request in wanted(self.requests, site):
            why = f"{type(optimizer).__name__} does not take it"
            session.overrides.report(request.note(dict.fromkeys(request.arguments, why), {}, site))


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Remember where each optimizer is made, and apply the overrides."""
    base = torch.optim.Optimizer
    sites = Sites(requests)

    def made(args: Any, _: Any, __: Any, arrived: bool) -> None:
        if arrived:
            session.constructed(sites.end, args[0])

    base.__init__ = put_around(torch, base.__init__, lambda *_: True, made)
    for kind in _own_constructors(torch) if requests else ():
        _watch_kind(torch, session, kind, sites)


def _watch_kind(torch: Any, session: Session, kind: Any, sites: Sites) -> None:
    overrides = Overrides(torch, kind, sites.requests)

    def enter(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        optimizer, *others = args
        if id(optimizer) in sites.making:
            # AdamW passes its own arguments on to the constructor of Adam.
            return None
        # Lists in place of generators, which could be read only once: torch makes the same lists.
        # What a generator of the script raises is raised here.
        kwargs = kwargs or {}
        if others:
            others[0] = _listed(torch, others[0])
        elif "params" in kwargs:
            kwargs = {**kwargs, "params": _listed(torch, kwargs["params"])}
        passed, kwargs = session.construct(overrides.begin, optimizer, tuple(others), kwargs)
        sites.making.add(id(optimizer))
        return (optimizer, *passed), kwargs

    def leave(args: Any, _: Any, __: Any, arrived: bool) -> None:
        sites.making.discard(id(args[0]))
        if arrived:
            session.constructed(overrides.end, args[0])

    kind.__init__ = put_around(torch, kind.__init__, enter, leave)


def _own_constructors(torch: Any) -> list[type]:
    """Classes of ``torch.optim`` whose own constructor takes a changeable argument."""
    base = torch.optim.Optimizer
    kinds = [value for value in vars(torch.optim).values() if isinstance(value, type)]
    return [
        kind
        for kind in kinds
        if issubclass(kind, base)
        and "__init__" in vars(kind)
        and {"fused", "foreach"} & inspect.signature(vars(kind)["__init__"]).parameters.keys()
    ]


def _listed(torch: Any, params: Any) -> Any:
    if isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        return params
    params = params if isinstance(params, (list, tuple, dict)) else list(params)
    for group in params:
        if isinstance(group, dict) and hasattr(group.get("params"), "__next__"):
            group["params"] = list(group["params"])
    return params
