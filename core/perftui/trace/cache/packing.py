"""Frozen dataclasses that hold arrays, as one JSON document and a list of arrays, and back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec
import numpy.typing as npt

Array = npt.NDArray[Any]
Kind = TypeVar("Kind")

_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


class CannotBeKept(ValueError):  # noqa: N818 - says what is so, and is no fault
    """A value would not come back as it was: JSON has no word for it (NaN, half a character)."""


def pack(value: Any, columns: list[Array], leave_out: Collection[str] = ()) -> bytes:
    """The fields of a dataclass as JSON; its arrays are appended to ``columns``.

    Fields may hold arrays, dataclasses that hold arrays, tuples of those, and all else that JSON
    can express. Raises CannotBeKept.
    """
    names = [each.name for each in fields(value) if each.init and each.name not in leave_out]
    hints = _hints(type(value))
    packed = {name: _packed(getattr(value, name), hints[name], columns) for name in names}
    return msgspec.json.encode(packed)


def _packed(value: Any, hint: Any, columns: list[Array]) -> msgspec.Raw:
    known = len(columns)

    def number_of(array: Array) -> int:
        columns.append(array)
        return len(columns) - 1

    try:
        text = msgspec.json.encode(value, enc_hook=number_of)
        # Where arrays are, all else are names and numbers.
        if len(columns) == known and msgspec.json.decode(text, type=hint) != value:
            raise CannotBeKept(f"JSON cannot say {hint} exactly")
    except (UnicodeEncodeError, msgspec.DecodeError) as error:
        raise CannotBeKept(str(error)) from error
    return msgspec.Raw(text)


def unpack(
    kind: type[Kind], document: bytes | msgspec.Raw, columns: Sequence[Array], **given: Any
) -> Kind:
    """What ``pack`` was given; ``given`` are the fields that were left out."""

    def array_of(_: Any, number: int) -> Array:
        return columns[number]

    hints = _hints(kind)
    found = msgspec.json.decode(document, type=dict[str, msgspec.Raw])
    made = {
        name: msgspec.json.decode(text, type=hints[name], dec_hook=array_of)
        for name, text in found.items()
    }
    return kind(**made, **given)
