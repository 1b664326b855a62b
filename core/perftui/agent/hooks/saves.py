"""How long ``torch.save`` takes, and where it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .around import put_around
from .call_site import CallSite

if TYPE_CHECKING:
    from ..recording.session import Session

LEAST_NS = 5_000_000
SHARE = 200
"""A note stands for so much saving, and for that part of all so far: some save small things at
every step, for weeks."""


class Saves:
    """Sums up calls until they are worth a note."""

    def __init__(self) -> None:
        self._waiting: dict[CallSite | None, list[int]] = {}
        self._all = 0

    def add(self, site: CallSite | None, duration: int) -> tuple[int, dict[str, Any]] | None:
        """Duration in ns and data of a ``save`` note, None while there is too little for one."""
        count_and_time = self._waiting.setdefault(site, [0, 0])
        count_and_time[0] += 1
        count_and_time[1] += duration
        self._all += duration
        count, together = count_and_time
        if together < max(LEAST_NS, self._all // SHARE):
            return None
        del self._waiting[site]
        where = site._asdict() if site else {"file": None, "line": None}
        return together, {"count": count, **where}


def watch(torch: Any, session: Session) -> None:
    """Time ``torch.save``."""
    saved = put_around(
        torch,
        torch.serialization.save,
        lambda *_: session.enter_save() or None,
        lambda _, start, *__: session.leave_save(start),
    )
    torch.serialization.save = torch.save = saved
