"""``findings.json``: the diagnosis of a run that has ended."""

from __future__ import annotations

from pathlib import Path

import msgspec

from perftui.diagnosis.model import Diagnosis
from perftui.run.atomic import replace_file
from perftui.run.versioned import UnreadableError, decode_versioned

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
        FindingsError: it cannot be read, is damaged, or of a schema newer than this version's.
    """
    try:
        return decode_versioned(path.read_bytes(), _File, SCHEMA, "a diagnosis").diagnosis
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FindingsError(f"{path}: {error.strerror}") from error
    except UnreadableError as error:
        raise FindingsError(f"{path}: {error}") from error
