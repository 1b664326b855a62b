"""The overrides that the recorder asks of the agent, read from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wire.options import decode as _decode
from ..wire.spool import OVERRIDES_VARIABLE


def read_overrides(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The overrides whose target is the DataLoader, as the recorder wrote them.

    Raises:
        ValueError: the variable does not hold a JSON array.
    """
    given = _decode(environment.get(OVERRIDES_VARIABLE), list)
    return [one for one in given if isinstance(one, dict) and one.get("target") == "DataLoader"]
