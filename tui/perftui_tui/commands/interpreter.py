"""Which Python runs the script."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from perftui_tui.commands.failure import UsageError
from perftui_tui.commands.line import CommandLine

ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")


def interpreter(line: CommandLine) -> str:
    """``--python``; else that of the active environment if torch is in it; else our own.

    perftui may be installed apart from torch (pipx), and an active environment may be one without
    torch while perftui's own has it.

    Raises:
        UsageError: ``--python`` names nothing that can be run.
    """
    chosen = line.values.get("python")
    if chosen is not None:
        found = shutil.which(chosen)
        if found is None:
            raise UsageError(f"--python {chosen}: there is no such interpreter")
        return found
    for variable in ENVIRONMENTS:
        prefix = os.environ.get(variable)
        if prefix and _has_torch(Path(prefix)) and (Path(prefix) / "bin" / "python").is_file():
            return str(Path(prefix) / "bin" / "python")
    return sys.executable


def _has_torch(prefix: Path) -> bool:
    """Whether torch is installed below ``prefix``; nothing is imported to find out."""
    return any(prefix.glob("lib/python3*/site-packages/torch/__init__.py"))
