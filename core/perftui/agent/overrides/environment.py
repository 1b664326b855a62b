"""Variables of the environment: the recorder sets them, here is seen whether they arrived."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session

OTHERWISE = "a launcher in between has set it otherwise"
"""To what is not said: it may be a secret."""


def watch(_: Any, session: Session, requests: list[Request]) -> None:
    """Tell which variables are as they were asked for."""
    for request in requests:
        given = {name: _text(value) for name, value in request.arguments.items()}
        lost = [name for name, text in given.items() if os.environ.get(name) != text]
        values = {name: request.arguments[name] for name in given if name not in lost}
        session.overrides.tell(request.note(dict.fromkeys(lost, OTHERWISE), values))


def _text(value: Any) -> str | None:
    """As the recorder writes it; None removes a variable."""
    return None if value is None else str(value)
