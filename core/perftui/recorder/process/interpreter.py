"""How the recorder starts modules of ours."""

from __future__ import annotations

import sys


def our_module(name: str) -> list[str]:
    """Our interpreter running ``name``, kept from importing what lies in the current directory or,
    where we have it ourselves, on the training's PYTHONPATH."""
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safe, "-m", "perftui.own_path", name]
