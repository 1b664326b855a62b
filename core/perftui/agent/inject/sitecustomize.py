"""Runs at the start of every interpreter that inherits the recorder's environment.

Python imports a module of this name on its own. Most interpreters that reach it never train
(compilers, git hooks, launchers), so it imports nothing, not even pathlib: it looks for the
spool, waits for ``torch``, and loads the rest of the agent, by file location, once torch is there.
The interpreter need not have perftui installed.
"""

# ruff: noqa: PTH100, PTH116, PTH118, PTH120
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing typing would take longer than everything else here together.
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

AGENT_PACKAGE = "_perftui_agent"
"""Name under which the agent's files are loaded, so that an installed perftui stays untouched."""


class TorchFinder:
    """A meta-path finder that reacts to ``torch`` only: it lets others find it, then arms."""

    def __init__(self, agent: str, spool: str) -> None:
        self._agent = agent
        self._spool = spool

    def find_spec(
        self,
        name: str,
        path: "Sequence[str] | None" = None,
        target: "ModuleType | None" = None,
    ) -> "ModuleSpec | None":
        """The spec that the other finders give for torch, its loader watched; else None."""
        if name != "torch":
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: "ModuleSpec | None" = find(name, path, target) if find else None
            if spec is not None:
                self._watch(spec.loader)
                return spec
        return None

    def _watch(self, loader: "Any") -> None:
        """Arm after the module has run. The finder stays until then: many only look for torch."""
        execute = getattr(loader, "exec_module", None)
        if execute is None or not hasattr(loader, "__dict__"):
            return

        def exec_module(module: "ModuleType") -> None:
            loader.__dict__.pop("exec_module", None)
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self._arm(module)

        loader.exec_module = exec_module

    def _arm(self, torch: "ModuleType") -> None:
        try:
            from importlib import import_module, util

            spec = util.spec_from_file_location(
                AGENT_PACKAGE,
                os.path.join(self._agent, "__init__.py"),
                submodule_search_locations=[self._agent],
            )
            if spec is None or spec.loader is None:
                raise ImportError(f"no agent in {self._agent}")
            package = util.module_from_spec(spec)
            sys.modules[AGENT_PACKAGE] = package
            spec.loader.exec_module(package)
            import_module(AGENT_PACKAGE + ".arm").arm(torch, self._spool)
        except Exception as error:  # noqa: BLE001 - the script's import of torch must succeed
            self._report(error)

    def _report(self, error: Exception) -> None:
        import json
        import time

        note = {
            "time": time.time_ns(),
            "kind": "error",
            "duration": 0,
            "step": -1,
            "data": {"message": f"the agent could not start: {type(error).__name__}: {error}"},
        }
        path = os.path.join(self._spool, f"notes-{os.getpid()}.jsonl")
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(file, json.dumps(note).encode() + b"\n")
            os.close(file)
        except OSError:
            # A spool that cannot be written belongs to a recorder that is gone: nobody to tell.
            return


def own_spool() -> "str | None":
    """The spool named by the environment, if it is a directory of this user; else None."""
    path = os.environ.get("PERFTUI_SPOOL")
    if not path:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    is_directory = status.st_mode & 0o170000 == 0o040000
    return path if is_directory and status.st_uid == os.getuid() else None


def import_shadowed(own: str) -> None:
    """Import the ``sitecustomize`` that ours hides, as if ours had never been on the path.

    ``PYTHONPATH`` keeps our directory, so that child interpreters are reached too.

    Raises:
        ImportError: there is none; the interpreter ignores exactly this error.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    hidden = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # there may be none

        sys.modules[__name__] = sitecustomize
    finally:
        # The import system insists on finding what it began to import, unless this raises.
        sys.modules.setdefault(__name__, hidden)


if __name__ == "sitecustomize":
    _own = os.path.dirname(os.path.abspath(__file__))
    _spool = own_spool()
    if _spool is not None:
        sys.meta_path.insert(0, TorchFinder(os.path.dirname(_own), _spool))
    import_shadowed(_own)
