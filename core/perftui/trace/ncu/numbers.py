"""Numbers as ncu prints them in any locale, and units with their prefixes taken out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

_SPACES = re.compile("[\\s\u00a0\u2009\u202f'\u2019]")
"""What groups digits besides point and comma: spaces of every width, and the Swiss apostrophe."""

_INSTANCES = re.compile(r"\s*\([^()]*;[^()]*\)$")
"""``--print-metric-instances`` puts the values of the units behind the value itself."""

_POINT = re.compile(
    r"[+-]?(?:[\d,]*,\d{3}\.\d*|\d*\.(?!\d{3}$)\d*|0\.\d+|\d+(?:,\d{2,3}){2,})", re.ASCII
)
_COMMA = re.compile(
    r"[+-]?(?:[\d.]*\.\d{3},\d*|\d*,(?!\d{3}$)\d*|0,\d+|\d+(?:\.\d{2,3}){2,})", re.ASCII
)
_NUMBER = re.compile(
    r"[+-]?(?:\d+|\d{1,3}(?:,\d{2,3})*,\d{3})(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|[+-]?\.\d+", re.ASCII
)
"""With a point; digits may stand in groups of three, or of two before the last three (India)."""

_SWAP = str.maketrans(",.", ".,")


def decimal_mark(cells: Iterable[str]) -> str:
    """``,`` where the cells of one file can only be read so, else ``.``.

    ``1,234`` alone proves nothing; ``64,86`` or ``1.234,5`` does. A file with both ways is read
    with a point.
    """
    comma = False
    for cell in cells:
        text = _SPACES.sub("", _INSTANCES.sub("", cell))
        if _POINT.fullmatch(text):
            return "."
        comma = comma or _COMMA.fullmatch(text) is not None
    return "," if comma else "."


@dataclass(frozen=True)
class Unit:
    """What a value is multiplied by, and the unit that it then has."""

    factor: int
    name: str


AS_IT_IS = Unit(1, "")


def number(text: str, mark: str = ".", unit: Unit = AS_IT_IS) -> float | None:
    """The value of a cell in ``unit.name``, None for ``n/a``, ``nan``, infinities and words."""
    plain = _SPACES.sub("", _INSTANCES.sub("", text))
    if mark == ",":
        plain = plain.translate(_SWAP)
    if not _NUMBER.fullmatch(plain):
        return None
    # Decimal: 1.006528 ms times a million is 1006528.0000000001 in floats.
    value = float(Decimal(plain.replace(",", "")) * unit.factor)
    return value if math.isfinite(value) else None


_PREFIXES = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
"""Powers of 1000, for bytes too: ncu prints 32,768 bytes as 32.768 Kbyte."""

_NS = {"second": 10**9, "s": 10**9, "msecond": 10**6, "ms": 10**6}
_NS |= {"usecond": 10**3, "us": 10**3, "nsecond": 1, "ns": 1}
_HERTZ = re.compile(r"([KkMGT]?)[Hh]z")
_PREFIXED = re.compile(r"([KkMGTP]?)(byte|B|cycle|inst|sector|request|warp|thread|block)")


@lru_cache(maxsize=1024)
def unit_of(text: str) -> Unit:
    """How to bring a value of this unit to ns, byte, Hz, byte/s, or the unit without its prefix."""
    text = text.strip()
    if text in _NS:
        return Unit(_NS[text], "ns")
    if hertz := _HERTZ.fullmatch(text):
        return Unit(_PREFIXES[hertz.group(1)], "Hz")
    above, slash, below = text.partition("/")
    prefixed = _PREFIXED.fullmatch(above)
    if not prefixed:
        return Unit(1, text)
    factor = _PREFIXES[prefixed.group(1)]
    base = "byte" if prefixed.group(2) == "B" else prefixed.group(2)
    if below not in _NS:
        return Unit(factor, base + slash + below)
    return Unit(factor * 10**9 // _NS[below], "Hz" if base == "cycle" else f"{base}/s")
