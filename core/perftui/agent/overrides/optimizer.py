"""Tries other implementations of an optimizer's step for one run, where its rules stay the same.

Results differ by rounding only, as they do between GPUs.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..hooks.around import put_around
from ..hooks.call_site import CallSite, find_call_site
from ..settings.model import in_force
from .request import Outcome, Request, arguments_of, wanted

if TYPE_CHECKING:
    from ..recording.session import Session


class Overrides:
    """Overrides of the arguments of optimizers of ``torch.optim``, bound to the calls they name."""

    def __init__(self, torch: Any, kind: Any, requests: list[Request]) -> None:
        """``kind`` is the class whose constructor is called; the base class takes none of them."""
        # Few runs have overrides: not importing it makes the start of the others faster.
        from . import optimizer_limits

        self._limits = optimizer_limits
        self._torch = torch
        self._kind = kind
        self._signature = inspect.signature(kind.__init__)
        self._requests = requests
        self._making: dict[int, tuple[CallSite | None, Outcome]] = {}

    def begin(
        self, _: Session, made: Any, args: Any, kwargs: Any, site: CallSite | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The optimizer's arguments with what may be overridden, None where nothing is.

        Arguments that do not fit the constructor are left for it to complain about.
        """
        requests = wanted(self._requests, site)
        if not requests:
            return None
        try:
            bound = self._signature.bind(made, *args, **kwargs).arguments
        except TypeError:
            return None
        if isinstance(bound["params"], self._torch.Tensor):
            return None
        outcome = Outcome({}, requests)
        asked = arguments_of(requests)
        # What is to be off first: the other may be on only then.
        for name in sorted(asked, key=lambda name: bool(asked[name])):
            why = self._why_not(type(made), name, asked[name], {**bound, **outcome.applied})
            if why is None:
                outcome.applied[name] = asked[name]
            else:
                outcome.refused[name] = why
        self._making[id(made)] = site, outcome
        return args, {**kwargs, **outcome.applied}

    def _why_not(self, kind: type, name: str, value: Any, given: dict[str, Any]) -> str | None:
        if name not in self._limits.CHANGEABLE:
            return "changes how the weights are updated"
        if name not in self._signature.parameters:
            return f"{kind.__name__} does not take it"
        return self._limits.why_not(self._torch, self._kind, kind, name, value, given)

    def end(self, session: Session, made: Any) -> None:
        """Report what became of each override that is meant for the optimizer."""
        site, outcome = self._making.pop(id(made), (None, None))
        if outcome is None:
            return
        for request in outcome.requests:
            values = {name: in_force(made, name) for name in request.arguments}
            session.overrides.report(request.note(outcome.refused, values, site))


class Sites:
    """Remembers where optimizers are made, and refuses what their classes do not take."""

    def __init__(self, requests: list[Request]) -> None:
        self.requests = requests
        self.making: set[int] = set()
        """Ids of optimizers whose own constructor has seen to the overrides."""

    def end(self, session: Session, made: Any) -> None:
        """``made`` has been constructed, as far as the base class goes."""
        site = find_call_site()
        session.optimizer_sites[made] = site
        if id(made) in self.making:
            return
        for request in wanted(self.requests, site):
            why = f"{type(made).__name__} does not take it"
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

    def enter(args: Any, named: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        optimizer, *others = args
        if id(optimizer) in sites.making:
            # AdamW calls the constructor of Adam, with all that it was given.
            return None
        others, named = _with_lists(torch, others, named or {})
        passed, named = session.construct(overrides.begin, optimizer, tuple(others), named)
        sites.making.add(id(optimizer))
        return (optimizer, *passed), named

    def leave(args: Any, _: Any, __: Any, arrived: bool) -> None:
        sites.making.discard(id(args[0]))
        if arrived:
            session.constructed(overrides.end, args[0])

    kind.__init__ = put_around(torch, kind.__init__, enter, leave)


def _own_constructors(torch: Any) -> list[type]:
    """The classes of ``torch.optim`` whose own constructor takes any of what can be changed."""
    base = torch.optim.Optimizer
    kinds = [one for one in vars(torch.optim).values() if isinstance(one, type)]
    return [
        kind
        for kind in kinds
        if issubclass(kind, base)
        and "__init__" in vars(kind)
        and {"fused", "foreach"} & inspect.signature(vars(kind)["__init__"]).parameters.keys()
    ]


def _with_lists(
    torch: Any, others: list[Any], named: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with parameters that can be looked at: torch makes the same lists of them.

    What a generator of the script raises is raised here.
    """
    if others:
        return [_listed(torch, others[0]), *others[1:]], named
    if "params" in named:
        return others, {**named, "params": _listed(torch, named["params"])}
    return others, named


def _listed(torch: Any, params: Any) -> Any:
    if isinstance(params, torch.Tensor) or not isinstance(params, Iterable):
        return params
    params = params if isinstance(params, (list, tuple, dict)) else list(params)
    for group in params:
        if isinstance(group, dict) and hasattr(group.get("params"), "__next__"):
            group["params"] = list(group["params"])
    return params
