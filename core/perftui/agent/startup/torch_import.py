"""Waits for ``torch`` to be imported, then starts the agent.

Loaded by ``inject/sitecustomize.py``, by itself, when somebody first looks for torch.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module, util
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = "_perftui"
"""Package under which ``agent`` and ``wire`` are loaded, so that an installed perftui is not
touched."""


def find_spec(finder: Any, path: Any, target: Any) -> ModuleSpec | None:
    """The spec of torch by the finders other than ``finder``, its loader watched; else None."""
    spool = own_spool()
    for other in sys.meta_path:
        find = None if other is finder else getattr(other, "find_spec", None)
        spec: ModuleSpec | None = find("torch", path, target) if find else None
        if spec is not None:
            if spool is not None:
                _watch(spec.loader, finder, spool)
            return spec
    return None


def own_spool() -> Path | None:
    """The spool named by the environment, if it is a directory of this user; else None."""
    name = os.environ.get("PERFTUI_SPOOL")
    if not name:
        return None
    path = Path(name)
    try:
        is_own = path.stat().st_uid == os.getuid()
    except OSError:
        return None
    return path if path.is_dir() and is_own else None


def _watch(loader: Any, finder: Any, spool: Path) -> None:
    """Arm after the module has run. The finder stays until then: many only look for torch."""
    execute = getattr(loader, "exec_module", None)
    if execute is None or not hasattr(loader, "__dict__"):
        return

    def exec_module(module: ModuleType) -> None:
        loader.__dict__.pop("exec_module", None)
        execute(module)
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
        _arm(module, spool)

    loader.exec_module = exec_module


def _arm(torch: ModuleType, spool: Path) -> None:
    try:
        spec = ModuleSpec(ROOT, None, is_package=True)
        spec.submodule_search_locations = [str(Path(__file__).absolute().parents[2])]
        sys.modules[ROOT] = util.module_from_spec(spec)
        import_module(ROOT + ".agent.startup.arm").arm(torch, str(spool))
    except Exception as error:  # noqa: BLE001 - the script's import of torch must succeed
        _report(error, spool)


def _report(error: Exception, spool: Path) -> None:
    import json
    import time

    note = {
        "time": time.time_ns(),
        "kind": "error",
        "duration": 0,
        "step": -1,
        "data": {"message": f"the agent could not start: {type(error).__name__}: {error}"},
    }
    path = spool / f"notes-{os.getpid()}.jsonl"
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, json.dumps(note).encode() + b"\n")
        os.close(file)
    except OSError:
        # If the spool cannot be written, the recorder is gone: there is nobody to report to.
        return
