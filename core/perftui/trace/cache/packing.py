"""Frozen dataclasses that hold arrays, as one JSON document and a list of arrays, and back."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Kind = TypeVar("Kind")

_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)
_NOTHING = msgspec.Raw(b"null")


class CannotBeKept(ValueError):  # noqa: N818 - says what is so, and is no fault
    """A value would not come back as it was: JSON has no word for it (NaN, half a character)."""


def pack(value: Any, columns: list[Array], leave_out: Collection[str] = ()) -> bytes:
    """The fields of a dataclass as JSON; its arrays are appended to ``columns``.

    Fields may hold arrays, dataclasses that hold arrays, None, tuples of those, and all else that
    JSON can express. Raises CannotBeKept.
    """
    hints = _hints(type(value))
    names = [each.name for each in fields(value) if each.init and each.name not in leave_out]
    packed = {name: _packed(getattr(value, name), hints[name], columns) for name in names}
    return msgspec.json.encode(packed)


def _packed(value: Any, hint: Any, columns: list[Array]) -> msgspec.Raw:
    if isinstance(value, np.ndarray):
        columns.append(value)
        return msgspec.Raw(msgspec.json.encode(len(columns) - 1))
    if not _holds_arrays(hint):
        return msgspec.Raw(_leaf(value, hint))
    if value is None:
        return _NOTHING
    if isinstance(value, tuple):
        item = _item(hint)
        return msgspec.Raw(msgspec.json.encode([_packed(each, item, columns) for each in value]))
    return msgspec.Raw(pack(value, columns))


def _leaf(value: Any, hint: Any) -> bytes:
    try:
        text = msgspec.json.encode(value)
        is_same = bool(msgspec.json.decode(text, type=hint) == value)
    except (UnicodeEncodeError, msgspec.DecodeError) as error:
        raise CannotBeKept(str(error)) from error
    if not is_same:
        raise CannotBeKept(f"JSON cannot say {hint} exactly")
    return text


def unpack(
    kind: type[Kind], document: bytes | msgspec.Raw, columns: Sequence[Array], **given: Any
) -> Kind:
    """What ``pack`` was given; ``given`` are the fields that were left out."""
    hints = _hints(kind)
    found = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    made = {name: _unpacked(hints[name], text, columns) for name, text in found.items()}
    return kind(**made, **given)


def _unpacked(hint: Any, text: msgspec.Raw, columns: Sequence[Array]) -> Any:
    if not _holds_arrays(hint):
        return msgspec.json.decode(text, type=hint)
    if bytes(text) == b"null":
        return None
    hint = _without_none(hint)
    if get_origin(hint) is np.ndarray:
        return columns[msgspec.json.decode(text, type=int)]
    if get_origin(hint) is tuple:
        item = _item(hint)
        every = msgspec.json.decode(text, type=list[msgspec.Raw])
        return tuple(_unpacked(item, each, columns) for each in every)
    return unpack(hint, text, columns)


@cache
def _holds_arrays(hint: Any) -> bool:
    hint = _without_none(hint)
    if get_origin(hint) is np.ndarray:
        return True
    if get_origin(hint) is tuple:
        return _holds_arrays(_item(hint))
    if not is_dataclass(hint):
        return False
    return any(_holds_arrays(inner) for inner in _hints(hint).values())


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    known = [each for each in get_args(hint) if each is not type(None)]
    return known[0] if len(known) == 1 else hint


def _item(hint: Any) -> Any:
    return get_args(_without_none(hint))[0]
