"""Runs the script of a trial with a patch in place of one of its files, which stays as it is.

The recorder names this file in the command where the script was. It runs in the training's own
interpreter, which need not have perftui, and leaves the ``__main__`` that the script would have
had. A child that multiprocessing spawns reads the file itself: it runs without the patch, and the
note that says so is missing.
"""

from __future__ import annotations

import builtins
import json
import linecache
import os
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

MODULE = "_perftui_patched"
"""Module that reports to the agent which patched files have been run."""


class Patched(ModuleType):
    """Patched files that have run, and who wants to know."""

    def __init__(self) -> None:
        super().__init__(MODULE)
        self.ran: set[str] = set()
        """Real paths of the files."""
        self.listeners: list[Any] = []
        """Called with the real path of a file when it is run."""

    def run(self, path: str) -> None:
        """The patch of ``path`` is about to be run."""
        self.ran.add(path)
        for listener in self.listeners:
            listener(path)


def _compiled(content: bytes, path: str) -> CodeType:
    """``content`` compiled as the code of ``path``; readers of its source see the patch, too."""
    import tokenize

    encoding, _ = tokenize.detect_encoding(iter(content.splitlines(keepends=True)).__next__)
    lines = content.decode(encoding).splitlines(keepends=True)
    # Without a time it is not checked against the file.
    linecache.cache[path] = (len(content), None, lines, path)
    return compile(content, path, "exec", dont_inherit=True)


def _patch_imports(contents: dict[str, bytes], patched: Patched) -> None:
    get_code = SourceFileLoader.get_code

    def instead(loader: Any, name: str) -> CodeType | None:
        path = os.path.realpath(loader.path)
        if path not in contents:
            return get_code(loader, name)
        code = _compiled(contents[path], loader.path)
        patched.run(path)
        return code

    SourceFileLoader.get_code = instead  # type: ignore[assignment,method-assign]  # for this run


def _main() -> tuple[CodeType, ModuleType]:
    """The code of the script, and the module ``__main__`` to run it in."""
    overrides = json.loads(os.environ["PERFTUI_OVERRIDES"])
    patches = [patch for patch in overrides if patch["target"] == "source"]
    contents = {
        os.path.realpath(patch["file"]): Path(patch["arguments"]["source"]).read_bytes()
        for patch in patches
    }
    patched = Patched()
    sys.modules[MODULE] = patched
    _patch_imports(contents, patched)
    sys.argv[0] = patches[0]["arguments"]["script"]
    # The path as Python forms it: links and dots stay.
    path = os.path.join(os.getcwd(), sys.argv[0])  # noqa: PTH109, PTH118
    real = os.path.realpath(path)
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = str(Path(real).parent)
    content = contents.get(real)
    code = _compiled(Path(path).read_bytes() if content is None else content, path)
    if content is not None:
        patched.run(real)
    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = SourceFileLoader("__main__", path)
    vars(main)["__builtins__"] = builtins
    # Main modules have different attributes in different versions of Python.
    own = vars(sys.modules["__main__"])
    fresh: dict[str, Any] = {"__annotations__": {}, "__cached__": None}
    vars(main).update((name, value) for name, value in fresh.items() if name in own)
    return code, main


def _run() -> None:
    code, main = _main()
    sys.modules["__main__"] = main
    exec(code, vars(main))  # noqa: S102  # it is what the user asked to run


if __name__ == "__main__":
    _run()
