"""Record, read and diagnose PyTorch training runs, without a user interface.

Names beside ``range`` and ``step`` are loaded when first used: scripts that train import this.
"""

from __future__ import annotations

from perftui.agent.marks import range, step  # noqa: A004 - scripts write perftui.range

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from perftui.api.reading import Run as Run
    from perftui.api.reading import Trace as Trace
    from perftui.api.reading import findings as findings
    from perftui.api.reading import load_trace as load_trace
    from perftui.api.reading import open_run as open_run
    from perftui.api.table import Table as Table

_LAZY = dict.fromkeys(("Run", "Trace", "findings", "load_trace", "open_run"), "perftui.api.reading")
_LAZY["Table"] = "perftui.api.table"

__all__ = ["Run", "Table", "Trace", "findings", "load_trace", "open_run", "range", "step"]


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(_LAZY[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
