"""The targets of overrides that this agent knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import dataloader, environment, optimizer
from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session

TARGETS = {
    "DataLoader": dataloader.watch,
    "optimizer": optimizer.watch,
    "environment": environment.watch,
}
"""By target: what listens for it, and applies the requests it is given."""


def watch(torch: Any, session: Session, requests: list[Request]) -> None:
    """Listen for every target; requests of one that is not known are refused by their notes."""
    for target, listen in TARGETS.items():
        listen(torch, session, [one for one in requests if one.target == target])
    for request in requests:
        if request.target not in TARGETS:
            why = f"this version of perftui does not know the target {request.target}"
            refused = dict.fromkeys(request.arguments or (request.target,), why)
            session.overrides.tell(request.note(refused, {}))
