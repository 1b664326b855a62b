"""JSON files that name the schema they were written by."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TypeVar

import msgspec

DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding JSON that was cut off, overwritten or made to do harm may raise."""


Content = TypeVar("Content")


class UnreadableError(ValueError):
    """The file is damaged, or newer than this version can read; the message says which."""


class NewerError(UnreadableError):
    """The file was written by a newer version; the message says so."""


class _Schema(msgspec.Struct):
    schema: int = 1


def _decode(content: bytes, kind: type[Content]) -> Content:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Names that are not UTF-8 are written with escapes that only the standard library takes.
        with suppress(ValueError):
            return msgspec.convert(json.loads(content), kind, str_keys=True)
        raise


def decode_versioned(content: bytes, kind: type[Content], newest: int, what: str) -> Content:
    """Decode ``content`` as ``kind``, whose schema is ``newest``; unknown fields are ignored.

    Raises:
        NewerError: its ``schema`` is a newer one.
        UnreadableError: it is not ``what``.
    """
    try:
        # The schema first: the fields of a newer one may not fit this version's.
        schema = _decode(content, _Schema).schema
        if schema > newest:
            raise NewerError(f"written by a newer perftui (schema {schema}; this reads {newest})")
        return _decode(content, kind)
    except DAMAGE as error:
        raise UnreadableError(f"not {what} ({error})") from error
