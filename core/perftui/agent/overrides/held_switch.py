"""A switch of torch that is held at one value for a while, whatever the script sets."""

from __future__ import annotations

import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Optional

from ..hooks.around import put_around

if TYPE_CHECKING:
    from .switches import Switch

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
