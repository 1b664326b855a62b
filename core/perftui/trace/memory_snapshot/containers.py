"""The stack of the machine that reads pickles, and how lists, tuples and dicts are made on it."""

from __future__ import annotations

from typing import TypeAlias

Plain: TypeAlias = object
"""None, bool, int, float, str, or a list, tuple or dict with text keys of such."""


class DamagedError(ValueError):
    """An instruction cannot be carried out; the message says why."""


class EndedError(DamagedError):
    """It needs bytes behind the end of the data."""


class Containers:
    """Values that wait to be put into others; a method of an instruction returns ``at``.

    One that fails leaves the stack as it was: what lies there can still be shown.
    """

    def __init__(self) -> None:
        self.stack: list[Plain] = []
        self.marks: list[int] = []
        """Heights of the stack; no pickler makes them fall."""

    def _mark(self, at: int) -> int:
        self.marks.append(len(self.stack))
        return at

    def _push(self, value: Plain, position: int) -> int:
        self.stack.append(value)
        return position

    def _empty_dict(self, at: int) -> int:
        self.stack.append({})
        return at

    def _whole_dict(self, at: int) -> int:
        made = _dict(self._above_mark())
        self._drop_to_mark()
        self.stack.append(made)
        return at

    def _since_mark(self) -> list[Plain]:
        values = self._above_mark()
        self._drop_to_mark()
        return values

    def _above_mark(self) -> list[Plain]:
        return self.stack[self.marks[-1] :]

    def _drop_to_mark(self) -> None:
        del self.stack[self.marks.pop() :]

    def _last(self, count: int) -> list[Plain]:
        if len(self.stack) < count:
            raise DamagedError("values are missing")
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def _append(self, at: int) -> int:
        self._list(len(self.stack) - 2).append(self.stack[-1])
        self.stack.pop()
        return at

    def _extend(self, at: int) -> int:
        self._list(self.marks[-1] - 1).extend(self._above_mark())
        self._drop_to_mark()
        return at

    def _set_item(self, at: int) -> int:
        self._fill(len(self.stack) - 3, self.stack[-2:])
        del self.stack[-2:]
        return at

    def _set_items(self, at: int) -> int:
        self._fill(self.marks[-1] - 1, self._above_mark())
        self._drop_to_mark()
        return at

    def _list(self, place: int) -> list[Plain]:
        target = self.stack[place] if place >= 0 else None
        if not isinstance(target, list):
            raise DamagedError("it appends to what is no list")
        return target

    def _fill(self, place: int, values: list[Plain]) -> None:
        target = self.stack[place] if place >= 0 else None
        if not isinstance(target, dict):
            raise DamagedError("it sets a key of what is no dict")
        target.update(_dict(values))


def _dict(values: list[Plain]) -> dict[str, Plain]:
    """Text keys only: their hash is random, so no file can choose keys that collide."""
    keys = values[::2]
    if len(values) % 2:
        raise DamagedError("a key has no value")
    if set(map(type, keys)) - {str}:
        raise DamagedError("a key is not text")
    return dict(zip(keys, values[1::2], strict=True))  # type: ignore[arg-type]  # checked above
