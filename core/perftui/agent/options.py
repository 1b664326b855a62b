"""The overrides that the recorder asks of the agent, read from the environment."""

from __future__ import annotations

from collections.abc import Mapping

from ..wire.options import decode as _decode
from ..wire.spool import OVERRIDES_VARIABLE
from .overrides.request import Request, request_of


def read_overrides(environment: Mapping[str, str]) -> list[Request]:
    """The overrides of the run, as the recorder wrote them.

    Raises:
        ValueError: the variable does not hold a JSON array.
    """
    given = _decode(environment.get(OVERRIDES_VARIABLE), list)
    read = (request_of(number, one) for number, one in enumerate(given))
    return [request for request in read if request is not None]
