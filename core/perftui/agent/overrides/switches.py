"""Tries switches of torch for one run, all the time or in blocks of steps.

While a switch is changed, settings by the script do not affect it. Results differ by rounding only,
as they do between machines.
"""

from __future__ import annotations

import sys
from functools import reduce
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ..hooks.watch import put_around, watch_steps
from .request import Blocks, Request

if TYPE_CHECKING:
    from ..recording.session import Session


class Switch(NamedTuple):
    """Functions of one switch, by their names below ``torch``."""

    get: str
    set: str
    door: str
    """The function that every setting calls in the end; it takes the value by position."""
    backend: str = ""
    """Module of ``torch.backends`` whose attribute ``enabled`` sets it, too."""


SWITCHES = {
    "threads": Switch("get_num_threads", "set_num_threads", "set_num_threads"),
    # Both classes of torch.autograd call it.
    "anomaly": Switch("is_anomaly_enabled", "set_anomaly_enabled", "set_anomaly_enabled"),
    "deterministic": Switch(
        "are_deterministic_algorithms_enabled",
        "use_deterministic_algorithms",
        "_C._set_deterministic_algorithms",
    ),
    "onednn": Switch(
        "_C._get_mkldnn_enabled", "_C._set_mkldnn_enabled", "_C._set_mkldnn_enabled", "mkldnn"
    ),
}
"""By argument of the override."""

WORKER = "torch.utils.data._utils.worker"
"""Each data-loader worker computes on one thread, and sets its own switches."""


class HeldSwitch:
    """``switch`` at ``value`` while it is changed, otherwise at the script's last setting."""

    def __init__(self, torch: Any, name: str, switch: Switch, value: Any) -> None:
        self.name = name
        self._torch = torch
        self._switch = switch
        self._value = value
        self._is_changed = self._is_ours = False
        self._last_setting: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None
        """The script's last setting: the function, and its arguments."""
        self._first = self._get()
        *path, door = switch.door.split(".")
        owner = reduce(getattr, path, torch)
        setattr(owner, door, self._guarded(getattr(owner, door)))
        if switch.backend:
            # The attribute holds the function that it had when its module was imported.
            prop = vars(type(getattr(torch.backends, switch.backend)))["enabled"]
            prop.setter = self._guarded(prop.setter)

    def _get(self) -> Any:
        return reduce(getattr, self._switch.get.split("."), self._torch)()

    def change(self) -> Any:
        """Hold it at the value; returns the value then in force."""
        self._set(self._value)
        self._is_changed = True
        return self._get()

    def give_back(self) -> None:
        """Restore the script's last setting, or the value before any setting."""
        self._is_changed = False
        if self._last_setting is None:
            self._set(self._first)
        else:
            door, args, kwargs = self._last_setting
            door(*args, **kwargs)

    def _set(self, value: Any) -> None:
        self._is_ours = True
        try:
            reduce(getattr, self._switch.set.split("."), self._torch)(value)
        finally:
            self._is_ours = False

    def _guarded(self, door: Any) -> Any:
        """``door``, which ignores settings of the script while the switch is changed."""

        def enter(args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
            if self._is_ours or _is_of_worker():
                return None
            self._last_setting = door, args, kwargs or {}
            return ((self._value, *args[1:]), kwargs or {}) if self._is_changed else None

        return put_around(self._torch, door, enter)


def _is_of_worker() -> bool:
    frame: Optional[FrameType] = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__") == WORKER:
            return True
        frame = frame.f_back
    return False


class HeldSwitches:
    """The switches of one request; ``refused`` says why its others are not changed.

    In blocks, steps of optimizers flip them between the script's way and the changed one; each flip
    is noted with its step, to compare the steps of either way.
    """

    def __init__(
        self,
        torch: Any,
        session: Session,
        request: Request,
        switches: list[HeldSwitch],
        refused: dict[str, str],
    ) -> None:
        self._torch = torch
        self._session = session
        self._request = request
        self._switches = switches
        self._refused = refused
        self._is_changed = False
        self._trained = 0
        self._step = -1
        """The newest step in which an optimizer has stepped."""

    def change(self) -> None:
        """Change them, and report."""
        values = {switch.name: switch.change() for switch in self._switches}
        self._session.overrides.report(self._request.note(self._refused, values))

    def flip_with_steps(self, blocks: Blocks) -> None:
        """Begin the first of ``blocks``; the others follow as the training goes on."""
        self._flip(is_changed=blocks.begins_changed)

        def stepped(session: Session, _: Any) -> None:
            recording = session.recording
            if recording is None or recording.index == self._step:
                return
            self._step = recording.index
            self._trained += 1
            number = blocks.begins(self._trained)
            if number is not None:
                is_changed = blocks.is_changed(number)
                self._flip(is_changed=is_changed)
                session.notes.write("block", {"step": self._step, "is_changed": is_changed})

        def after(optimizer: Any, *_: Any) -> None:
            self._session.constructed(stepped, optimizer)

        watch_steps(self._torch, after=after)

    def _flip(self, *, is_changed: bool) -> None:
        """Set the switches as in a block that is changed or not."""
        if is_changed == self._is_changed:
            return
        self._is_changed = is_changed
        cuda = self._torch.cuda
        if cuda.is_initialized() and not cuda.is_current_stream_capturing():
            # Queued work belongs to the block before.
            cuda.synchronize()
        if is_changed:
            self.change()
        else:
            for switch in self._switches:
                switch.give_back()


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Change the requested switches, keep them so, and report the values in force."""
    # If two requests name one switch, the last wins.
    deciding = {name: request for request in requests for name in request.arguments}
    for request in requests:
        changeable, refused = [], {}
        for name, value in request.arguments.items():
            switch = SWITCHES.get(name)
            if switch is None:
                refused[name] = "this version of perftui does not know the switch"
            elif deciding[name] is request:
                changeable.append(HeldSwitch(torch, name, switch, value))
        switches = HeldSwitches(torch, session, request, changeable, refused)
        if request.blocks is None:
            switches.change()
        else:
            switches.flip_with_steps(request.blocks)
