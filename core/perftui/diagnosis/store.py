"""``findings.json``: the diagnosis of a run that has ended."""

from __future__ import annotations

from pathlib import Path

import msgspec

from perftui.diagnosis.model import Diagnosis
from perftui.run.atomic import replace_file

SCHEMA = 1


class FindingsError(ValueError):
    """The file is not a diagnosis this version can read; the message says why."""


class _File(msgspec.Struct, frozen=True):
    diagnosis: Diagnosis
    schema: int = SCHEMA


def write_findings(path: Path, diagnosis: Diagnosis) -> None:
    """Replace the diagnosis at ``path`` atomically.

    Raises:
        OSError: it cannot be written; an older one is then untouched.
    """
    encoded = msgspec.json.encode(_File(diagnosis))
    replace_file(path, msgspec.json.format(encoded, indent=2) + b"\n")


def read_findings(path: Path) -> Diagnosis | None:
    """The diagnosis at ``path``, None where none has been written.

    Raises:
        FindingsError: it is damaged, or of a schema newer than this version's.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise FindingsError(f"{path}: not a diagnosis ({error})") from error
    if file.schema > SCHEMA:
        raise FindingsError(
            f"{path}: written by a newer perftui (schema {file.schema}; this reads {SCHEMA})"
        )
    return file.diagnosis
