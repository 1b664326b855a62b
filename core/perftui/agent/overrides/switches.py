"""Tries switches of torch for one run, all the time or in blocks of steps.

While a switch is changed, no setting of the script reaches it. Results differ by rounding only, as
they do between machines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ..hooks.around import put_around, watch_steps
from .request import Blocks, Request

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
            flip(torch, session, request, request.blocks, held, refused)


def change(
    session: Session, request: Request, held: list[HeldSwitch], refused: dict[str, str]
) -> None:
    """Change the switches of ``request``, and report."""
    values = {one.name: one.change() for one in held}
    session.overrides.report(request.note(refused, values))


WORKER = "torch.utils.data._utils.worker"
"""Data-loader workers compute on one thread each: what is set in one is its own."""


class HeldSwitch:
    """``switch`` at ``value`` while it is changed, and else as the script has set it last."""

    def __init__(self, torch: Any, name: str, switch: Switch, value: Any) -> None:
        self.name = name
        self._torch = torch
        self._switch = switch
        self._value = value
        self._is_changed = self._is_ours = False
        self._own: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None
        """The script's last setting: which function, and with what it was called."""
        self._first = switch.get(torch)
        for owner, door in switch.doors:
            found = getattr(owner(torch), door)
            setattr(owner(torch), door, self._guarded(found))
        if switch.backend is not None:
            # The attribute holds the function that it had when its module was imported.
            backend = type(getattr(torch.backends, switch.backend))
            prop = vars(backend)[switch.attribute]
            prop.setter = self._guarded(prop.setter)

    def change(self) -> Any:
        """Hold it at the value; what is in force then."""
        self._set(self._value)
        self._is_changed = True
        return self._switch.get(self._torch)

    def give_back(self) -> None:
        """Set it as the script has last, or as it was before any setting."""
        self._is_changed = False
        if self._own is None:
            self._set(self._first)
        else:
            door, args, named = self._own
            door(*args, **named)

    def _set(self, value: Any) -> None:
        self._is_ours = True
        try:
            self._switch.set(self._torch, value)
        finally:
            self._is_ours = False

    def _guarded(self, door: Any) -> Any:
        """``door``, through which no setting of the script gets while the switch is changed."""

        def enter(args: Any, named: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
            if self._is_ours or _is_of_worker():
                return None
            self._own = door, args, named or {}
            return ((self._value, *args[1:]), named or {}) if self._is_changed else None

        return put_around(self._torch, door, enter)


def _is_of_worker() -> bool:
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == WORKER:
            return True
        frame = frame.f_back
    return False


class Flips:
    """The switches ``held`` of one request, which steps of optimizers flip between the script's way
    and the changed one; each flip is noted with its step, to compare the steps of either way."""

    def __init__(
        self,
        torch: Any,
        request: Request,
        blocks: Blocks,
        held: list[HeldSwitch],
        refused: dict[str, str],
    ) -> None:
        self._torch = torch
        self._request = request
        self._blocks = blocks
        self._held = held
        self._refused = refused
        self._is_changed = False
        self._trained = 0
        self._step = -1
        """The newest step in which an optimizer has stepped."""

    def to(self, session: Session, *, is_changed: bool) -> None:
        """Let the switches be as they are in such a block."""
        if is_changed == self._is_changed:
            return
        self._is_changed = is_changed
        cuda = self._torch.cuda
        if cuda.is_initialized() and not cuda.is_current_stream_capturing():
            # What is queued belongs to the block before.
            cuda.synchronize()
        if is_changed:
            change(session, self._request, self._held, self._refused)
        else:
            for one in self._held:
                one.give_back()

    def stepped(self, session: Session, _: Any) -> None:
        """An optimizer has stepped."""
        recording = session.recording
        if recording is None or recording.index == self._step:
            return
        self._step = recording.index
        self._trained += 1
        number = self._blocks.begins(self._trained)
        if number is not None:
            is_changed = self._blocks.is_changed(number)
            self.to(session, is_changed=is_changed)
            session.notes.write("block", {"step": self._step, "is_changed": is_changed})


def flip(
    torch: Any,
    session: Session,
    request: Request,
    blocks: Blocks,
    held: list[HeldSwitch],
    refused: dict[str, str],
) -> None:
    """Let the switches ``held`` flip with the steps of the training."""
    flips = Flips(torch, request, blocks, held, refused)
    flips.to(session, is_changed=blocks.begins_changed)

    def after(optimizer: Any, *_: Any) -> None:
        session.constructed(flips.stepped, optimizer)

    watch_steps(torch, after=after)
