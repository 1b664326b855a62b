"""When a selection begins and how long it is: rounded, and with all digits for who wants them."""

from __future__ import annotations

from perftui_tui.charts.axis import exact_ns
from perftui_tui.look.units import format_ns
from perftui_tui.screens.timeline.detail.lines import Line

_SHOWN_DIGITS = 3


def began(start: int) -> str:
    """``at 71.6 ms``: ``start`` is ns since the trace's origin."""
    return f"at {format_ns(start)}"


def exact_lines(start: int, end: int) -> list[Line]:
    """All digits of both ends and of the time between, in ns; none where nothing was rounded."""
    times = (start, end, end - start)
    if all(len(str(abs(time)).rstrip("0")) <= _SHOWN_DIGITS for time in times):
        return []
    first, last, between = map(exact_ns, times)
    return [Line(f"exactly {between}, from {first} to {last}", "dim")]
