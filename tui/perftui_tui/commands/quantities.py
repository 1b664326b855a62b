"""Times, sizes and shares as they are typed after an option."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TIME = re.compile(r"(\d{1,6})([smhdw])", re.ASCII)
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(?:([KMGT])(?:i?B)?|B)?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%?", re.ASCII)


def seconds_in(text: str) -> int | None:
    """``90s``, ``15m``, ``2h``, ``30d`` or ``2w`` in seconds; None for anything else."""
    found = _TIME.fullmatch(text)
    return int(found[1]) * _SECONDS[found[2]] if found else None


def bytes_in(text: str) -> int | None:
    """``500M``, ``5G``, ``1.5GiB`` or a number of bytes, in bytes; the units are powers of 1024, as
    those of ``du``. None for anything else."""
    found = _SIZE.fullmatch(text)
    if not found:
        return None
    return round(float(found[1]) * _UNITS[(found[2] or "").upper()])


def share_in(text: str) -> float | None:
    """``5%`` or ``5`` as 0.05; None for anything else."""
    found = _PERCENT.fullmatch(text)
    return float(found[1]) / 100 if found else None
