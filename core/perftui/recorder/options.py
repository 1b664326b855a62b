"""The options of a run that was recorded, read from its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perftui.wire.spool import AgentOptions


def options_of(profile: Mapping[str, Any]) -> AgentOptions:
    """The options among the ``profile`` facts of a manifest; what is not there has its default.

    All have their defaults where another version wrote them in another form.
    """
    try:
        return msgspec.convert(profile, AgentOptions)
    except msgspec.ValidationError:
        return AgentOptions()
