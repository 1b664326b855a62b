"""Tries switches of torch for one run, all the time or in blocks of steps.

While a switch is changed, no setting of the script reaches it. Results differ by rounding only, as
they do between machines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from .held_switch import HeldSwitch
from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session


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
    """Change what is asked for, keep it so, and report what is in force."""
    # Of two that name one switch, the later decides.
    deciding = {name: request for request in requests for name in request.arguments}
    for request in requests:
        held, refused = [], {}
        for name, value in request.arguments.items():
            switch = SWITCHES.get(name)
            if switch is None:
                refused[name] = "this version of perftui does not know the switch"
            elif deciding[name] is request:
                held.append(HeldSwitch(torch, name, switch, value))
        if request.blocks is None:
            change(session, request, held, refused)
        else:
            # Few runs have it: not importing it makes the start of the others faster.
            from . import blocks

            blocks.watch(torch, session, request, request.blocks, held, refused)


def change(
    session: Session, request: Request, held: list[HeldSwitch], refused: dict[str, str]
) -> None:
    """Change the switches of ``request``, and report."""
    values = {one.name: one.change() for one in held}
    session.overrides.report(request.note(refused, values))
