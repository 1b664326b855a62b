"""Which Python runs the script: perftui may be installed apart from it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import log

ENVIRONMENTS = ("VIRTUAL_ENV", "CONDA_PREFIX")

_PACKAGES = (
    "lib/python3*/site-packages",
    "lib/python3*/dist-packages",
    "local/lib/python3*/dist-packages",
)
"""Where packages are below an interpreter's prefix; the last two are Debian's, of ``/usr``."""


def interpreter(line: CommandLine) -> str:
    """``--python``; else the first that has torch of the active environment's, our own, and the
    ``python3`` and ``python`` that a shell would run; else our own.

    An active environment may be one without torch while perftui's own has it.

    Raises:
        UsageError: there is no interpreter of that name.
    """
    chosen = line.values.get("python")
    if chosen is None:
        return next((str(one) for one in _candidates() if _has_torch(one)), sys.executable)
    found = shutil.which(chosen)
    if found is None:
        raise UsageError(f"--python {chosen}: there is no such interpreter")
    return found


def training_interpreter(line: CommandLine) -> str:
    """The same; says where it is our own because none has torch.

    Raises:
        UsageError: there is no interpreter of that name.
    """
    python = interpreter(line)
    if "python" not in line.values and not _has_torch(Path(python)):
        log(
            f"perftui: no Python with PyTorch was found, so running with {python}; "
            "--python PATH names another"
        )
    return python


def _candidates() -> Iterator[Path]:
    for variable in ENVIRONMENTS:
        if prefix := os.environ.get(variable):
            yield Path(prefix) / "bin" / "python"
    yield Path(sys.executable)
    for name in ("python3", "python"):
        if found := shutil.which(name):
            yield Path(found)


def _has_torch(python: Path) -> bool:
    """Whether torch is installed for ``python``; nothing is imported to find out."""
    if str(python) == sys.executable:
        return find_spec("torch") is not None
    prefix = python.parent.parent
    return python.is_file() and any(
        any(prefix.glob(f"{packages}/torch/__init__.py")) for packages in _PACKAGES
    )
