"""Waiting for what a slow machine takes its time for, but not forever."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

PATIENCE = 300.0
"""Seconds for any one thing."""


async def until(condition: Callable[[], object], between: Callable[[], Awaitable[None]]) -> None:
    """Do ``between`` till ``condition`` holds.

    Raises:
        TimeoutError: it did not within ``PATIENCE``.
    """
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE:.0f} s: {condition}")
        await between()
