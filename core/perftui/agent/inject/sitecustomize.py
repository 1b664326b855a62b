"""Runs at the start of every interpreter that inherits the recorder's environment.

Python imports a module of this name on its own. Most interpreters that reach it never train
(compilers, git hooks, launchers), so it imports nothing, not even pathlib, and is short: it waits
for ``torch`` and leaves the rest to ``torch_import``. The interpreter need not have perftui.
"""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Importing typing would take longer than everything else here together.
    from typing import Any


class TorchFinder:
    """A meta-path finder that reacts to ``torch`` only: it lets others find it, then arms."""

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """The spec that the other finders give for torch, its loader watched; else None."""
        if name != "torch":
            return None
        from importlib.machinery import SourceFileLoader

        # The file may be a link in the spool.
        agent = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
        loader = SourceFileLoader(
            "_perftui_torch_import", os.path.join(agent, "startup", "torch_import.py")
        )
        rest = type(sys)(loader.name)
        rest.__file__ = loader.path
        try:
            loader.exec_module(rest)
        except OSError:
            # perftui was uninstalled meanwhile; the recorder says that nobody answered.
            return None
        return rest.find_spec(self, path, target)


class MarksFinder:
    """A meta-path finder that comes last: where the interpreter has no perftui, the name stands for
    the marks that scripts set (``agent/marks.py``)."""

    def find_spec(self, name: str, *_: "Any") -> "Any":
        """The spec of the marks for perftui, None for all else."""
        if name != "perftui":
            return None
        from importlib.util import spec_from_file_location

        agent = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
        marks = os.path.join(agent, "marks.py")
        # perftui may have been uninstalled meanwhile.
        return spec_from_file_location(name, marks) if os.path.exists(marks) else None


def keep_compiled() -> None:
    """Write the .pyc of this file, in the run's own spool, even where Python is told to write none.

    Compiling takes 1 ms, whatever there is to compile, in each of the interpreters to come.
    """
    spec: "Any" = __spec__
    if sys.dont_write_bytecode and not sys.pycache_prefix and not os.path.exists(spec.cached):
        sys.dont_write_bytecode = False
        try:
            spec.loader.get_code(__name__)
        finally:
            sys.dont_write_bytecode = True


def waits_already() -> bool:
    """Whether another such finder waits for torch: a recorder that runs below another adds one.

    Each would ask the other to find torch, without an end.
    """
    return any(type(finder).__name__ == TorchFinder.__name__ for finder in sys.meta_path)


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
    _spool = os.environ.get("PERFTUI_SPOOL")
    if _spool and not waits_already():
        sys.meta_path.insert(0, TorchFinder())
        sys.meta_path.append(MarksFinder())
        if _own.startswith(_spool):
            keep_compiled()
    import_shadowed(_own)
