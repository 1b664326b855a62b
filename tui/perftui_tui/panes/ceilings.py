"""What the machine can do at most, beside what it does now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perftui.facts.gpu.own_gpus import OwnCeilings
    from perftui_tui.reading.snapshot import Snapshot


def ceilings(snapshot: Snapshot) -> OwnCeilings | None:
    """What ``perftui probe`` measured on the machine of the run; None where it did not.

    They are read with the rules: the first frame, which is not judged, does not wait for them.
    """
    if not snapshot.is_judged:
        return None
    from perftui.facts.gpu.own_gpus import own_ceilings

    return snapshot.ask(own_ceilings)
