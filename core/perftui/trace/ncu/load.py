"""Reads what ncu measured: CSV of either page, or a binary report through ncu itself."""

from __future__ import annotations

import codecs
from pathlib import Path

from perftui.trace.errors import TraceError
from perftui.trace.ncu.model import KernelMetrics
from perftui.trace.ncu.page import HEADER, parse
from perftui.trace.ncu.report import MAGIC, csv_of_report

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_ncu(first_bytes: bytes) -> bool:
    """Whether a file that begins so is a report of ncu, or CSV whose header is in these bytes."""
    return first_bytes.startswith(MAGIC) or HEADER.search(_text(first_bytes)) is not None


def load_ncu(path: Path) -> KernelMetrics:
    """Load CSV of ``ncu --csv`` (pages ``details`` and ``raw``) or an ``.ncu-rep``.

    What the program and ncu printed around the CSV is skipped. Values are not combined over passes
    or launches; they are only brought to ns, byte, Hz and byte/s. A report needs ``ncu`` on PATH.

    Raises TraceError, which says what to do, where the file cannot be read, holds no page of ncu or
    no kernel, or is a report that ncu is needed for and cannot read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if data.startswith(MAGIC):
        return parse(path, csv_of_report(path))
    return parse(path, _text(data))


def _text(data: bytes) -> str:
    """PowerShell writes what is redirected to a file as UTF-16."""
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    return data.decode(encoding, "replace")
