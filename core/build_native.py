"""Compiles the C files of the package as it is built, if there is a compiler.

Nothing depends on it: nesting the calls of a trace is in Python too, many times slower, and the
hooks of a training take the slow path.
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

_TRACE_PARTS = ("columns/native", "kineto/scan")
_AGENT_PARTS = ("compiled", "around", "fast_path", "page")
LIBRARIES = {
    "core/perftui/trace/columns/_native.so": tuple(
        f"core/perftui/trace/{name}.c" for name in _TRACE_PARTS
    ),
    # Of the stable part of the Python API, hence for any Python from 3.10 on.
    "core/perftui/agent/native/_compiled.abi3.so": tuple(
        f"core/perftui/agent/native/{name}.c" for name in _AGENT_PARTS
    ),
}
FLAGS = ("-O2", "-std=gnu99", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}")


class NativeBuildHook(BuildHookInterface[Any]):
    """Adds the libraries to the wheel, which is then one for this platform and any Python."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Compile, and tag the wheel accordingly."""
        made = [target for target in LIBRARIES if compiled(Path(self.root), target)]
        if not made:
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"] += made


def compiled(root: Path, target: str) -> bool:
    """Compile the library ``target`` below ``root``; whether that worked."""
    command = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(command[0]) is None:
        return False
    fresh = root / f"{target}.new"
    sources = [str(root / source) for source in LIBRARIES[target]]
    outcome = subprocess.run(  # noqa: S603 - the compiler, no shell
        [*command, *FLAGS, "-o", str(fresh), *sources], check=False, capture_output=True
    )
    if outcome.returncode == 0:
        fresh.replace(root / target)
    return outcome.returncode == 0
