"""``findings.json``: the diagnosis of a run that has ended."""

from __future__ import annotations

from pathlib import Path

import msgspec

from perftui.diagnosis.model import Diagnosis
from perftui.run.files import decode_versioned, read_regular, replace_file

SCHEMA = 1
"""Schema of the file, for scripts that read it."""


class _File(msgspec.Struct, frozen=True):
    diagnosis: Diagnosis
    schema: int = SCHEMA


def write_findings(path: Path, diagnosis: Diagnosis) -> None:
    """Replace the diagnosis at ``path`` atomically.

    Raises:
        OSError: it cannot be written; an older one is then unchanged.
    """
    encoded = msgspec.json.encode(_File(diagnosis))
    replace_file(path, msgspec.json.format(encoded, indent=2) + b"\n")


def read_findings(path: Path) -> Diagnosis:
    """The diagnosis at ``path``.

    Raises:
        UnreadableError: it is damaged or newer than this version.
        OSError: there is none, or it cannot be read.
    """
    return decode_versioned(read_regular(path), _File, SCHEMA, "a diagnosis").diagnosis
