"""A loader that is asked for one batch after the other, and nothing else is done with them."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from ..recording.step_writer import StepLimit
from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session

WARM_UP = 16
"""Batches that are not timed: workers start, and have made some before they are asked."""

FEWEST = 20
"""Batches that are timed, however long they take."""


def drain(torch: Any, session: Session, request: Request) -> None:
    """Time the loader that ``request`` names when its first epoch begins, then end the script."""
    loaders = torch.utils.data.DataLoader
    original = loaders.__iter__
    seconds = float(request.arguments["loader_alone"])

    def begin(loader: Any) -> Any:
        site, _ = session.loaders.origins.get(loader, (None, None))
        if not request.covers(site):
            return original(loader)
        # Before the epochs that are timed: nothing is asked twice where one of them raises.
        loaders.__iter__ = original
        batches, taken = timed(_epochs(original, loader), seconds)
        session.overrides.report(request.note({}, request.arguments, site))
        session.notes.write("loader_alone", {"batches": batches, "ns": taken})
        raise StepLimit

    loaders.__iter__ = begin


def timed(batches: Iterator[Any], seconds: float) -> tuple[int, int]:
    """How many came in about so many seconds after the first ``WARM_UP``, and in how many ns."""
    began, count, warm = perf_counter_ns(), 0, 0
    for _ in batches:
        now = perf_counter_ns()
        if warm < WARM_UP:
            began, warm = now, warm + 1
            continue
        count += 1
        if count >= FEWEST and now - began >= seconds * 1e9:
            break
    return count, now - began if count else 0


def _epochs(start: Any, loader: Any) -> Iterator[Any]:
    """The batches of one epoch after the other, until one is empty."""
    given = True
    while given:
        given = False
        for batch in start(loader):
            given = True
            yield batch
