"""Values of evidence as a person reads them."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.model import Figure


def valued(value: float | int | str, unit: str) -> str:
    """A value with its unit, as a person reads it."""
    if isinstance(value, str):
        return value
    if unit == "ns":
        return fmt.duration(value)
    if unit == "B":
        return fmt.size(value)
    # "g" keeps six digits, so counts are written whole.
    number = str(value) if isinstance(value, int) else f"{value:g}"
    return f"{number} %" if unit == "%" else number


def short_value(figure: Figure) -> str:
    """A value with its unit; of a place without its directories, which name a person's machine."""
    value = valued(figure.shown_value, figure.unit)
    place = figure.place
    return place.short if place is not None and place.source == value else value
