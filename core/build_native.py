"""Compiles the C files of ``perftui/trace`` as the package is built, if there is a compiler.

Nothing depends on it: the same loops are in Python, several times slower.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PARTS = ("native", "scan", "order", "sweep", "call_tree", "longest")
SOURCES = tuple(f"core/perftui/trace/{name}.c" for name in _PARTS)
TARGET = "core/perftui/trace/_native.so"


class NativeBuildHook(BuildHookInterface[Any]):
    """Adds the library to the wheel, which is then one for this platform and any Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Compile, and tag the wheel accordingly."""
        if not compiled(Path(self.root)):
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(TARGET)


def compiled(root: Path) -> bool:
    """Compile the library below ``root``; whether that worked."""
    command = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(command[0]) is None:
        return False
    fresh = root / f"{TARGET}.new"
    sources = [str(root / source) for source in SOURCES]
    flags = ["-O2", "-std=c99", "-shared", "-fPIC", "-o", str(fresh), *sources]
    outcome = subprocess.run([*command, *flags], check=False, capture_output=True)  # noqa: S603 - the compiler, no shell
    if outcome.returncode == 0:
        fresh.replace(root / TARGET)
    return outcome.returncode == 0
