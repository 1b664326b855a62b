"""Tries switches of torch for one run: each is set once, and no setting of the script changes it.

Results differ by rounding only, as they do between machines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ..hooks.around import put_around
from .request import Request, arguments_of

if TYPE_CHECKING:
    from ..recording.session import Session

WORKER = "torch.utils.data._utils.worker"
"""Data-loader workers compute on one thread each: what is set in one is its own."""


class Switch(NamedTuple):
    """One switch; functions and the owners of doors are given ``torch``."""

    get: Callable[[Any], Any]
    set: Callable[[Any, Any], object]
    doors: tuple[tuple[Callable[[Any], Any], str], ...]
    """Functions that every setting ends in, and that take the value by position: their owner, and
    their name there."""
    backend: Optional[str] = None
    """Module of ``torch.backends`` whose attribute ``enabled`` or the like sets it, too."""
    attribute: str = ""


def _torch(torch: Any) -> Any:
    return torch


def _c(torch: Any) -> Any:
    return torch._C


SWITCHES = {
    "threads": Switch(
        lambda torch: torch.get_num_threads(),
        lambda torch, value: torch.set_num_threads(value),
        ((_torch, "set_num_threads"),),
    ),
    "anomaly": Switch(
        lambda torch: torch.is_anomaly_enabled(),
        lambda torch, value: torch.set_anomaly_enabled(value),
        # Both classes of torch.autograd call it.
        ((_torch, "set_anomaly_enabled"),),
    ),
    "deterministic": Switch(
        lambda torch: torch.are_deterministic_algorithms_enabled(),
        lambda torch, value: torch.use_deterministic_algorithms(value),
        ((_c, "_set_deterministic_algorithms"),),
    ),
    "onednn": Switch(
        lambda torch: torch._C._get_mkldnn_enabled(),
        lambda torch, value: torch._C._set_mkldnn_enabled(value),
        ((_c, "_set_mkldnn_enabled"),),
        "mkldnn",
        "enabled",
    ),
}
"""By the argument of the override."""


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Set what is asked for, keep it so, and tell what is in force."""
    asked = arguments_of(requests)
    refused: dict[str, str] = {}
    for name, value in asked.items():
        switch = SWITCHES.get(name)
        if switch is None:
            refused[name] = "this version of perftui does not know the switch"
        else:
            _keep(torch, switch, value)
            switch.set(torch, value)
    values = {name: SWITCHES[name].get(torch) for name in asked if name not in refused}
    for request in requests:
        session.overrides.report(request.note(refused, values))


def _keep(torch: Any, switch: Switch, value: Any) -> None:
    """Let every later setting be one to ``value``."""

    def enter(args: Any, named: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        return None if _is_of_worker() else ((value, *args[1:]), named or {})

    for owner, name in switch.doors:
        setattr(owner(torch), name, put_around(torch, getattr(owner(torch), name), enter))
    if switch.backend is not None:
        # The attribute holds the function that it had when its module was imported.
        backend = type(getattr(torch.backends, switch.backend))
        prop = vars(backend)[switch.attribute]
        prop.setter = put_around(torch, prop.setter, enter)


def _is_of_worker() -> bool:
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == WORKER:
            return True
        frame = frame.f_back
    return False
