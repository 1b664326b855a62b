"""The compiled hooks of ``lane.c``, where the installation has them and they fit this Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._lane import CompiledLane as CompiledLane
else:
    try:
        if sys.version_info < (3, 10):
            raise ImportError("the part of the Python API that it uses is stable from 3.10 on")
        from ._lane import CompiledLane
    except ImportError:

        class CompiledLane:
            """Is never opened: every step goes the long way."""

            is_open = inside = False

            def nowhere(self, *_: Any) -> int:
                """What happens is for the session."""
                return 0

            enter_fetch = leave_fetch = enter_forward = enter_backward = leave = nowhere
            enter_optimizer = leave_optimizer = nowhere


IS_COMPILED = hasattr(CompiledLane, "own_thread")
