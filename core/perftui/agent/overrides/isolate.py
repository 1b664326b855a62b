"""Leaves one side of a training out for one run, to measure its cost: the loader, or the output.

Such a run trains nothing of use; only how long its steps take is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .loader_alone import drain
from .no_output import silence
from .repeated_batches import repeat
from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session

Start = Callable[[Any, "Session", Request], None]

SIDES: dict[str, Start] = {"repeated_batches": repeat, "loader_alone": drain, "output": silence}
"""By the argument of the override."""


def start(torch: Any, session: Session, requests: list[Request]) -> None:
    """Leave out what is asked for; an argument that is not known is refused by its note."""
    for request in requests:
        unknown = [name for name in request.arguments if name not in SIDES]
        if unknown:
            why = "this version of perftui does not know it"
            session.overrides.report(request.note(dict.fromkeys(unknown, why), {}))
            continue
        for name in request.arguments:
            SIDES[name](torch, session, request)
