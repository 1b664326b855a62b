"""What perftui itself has taken of the steps so far, beside its limit."""

from __future__ import annotations

from perftui_tui.look.rows import Span
from perftui_tui.reading.snapshot import Snapshot


def own_cost(snapshot: Snapshot) -> list[Span]:
    """``perftui 0.3 %, limit 1 %``, highlighted where it is over; nothing where it is not known.

    The first window may take it over the limit; later ones wait until that is paid back.
    """
    from perftui.facts.step.own_cost import own_cost_text

    cost = snapshot.ask(own_cost_text)
    return [] if cost is None else [(cost.text, "warn" if cost.is_over else "dim")]
