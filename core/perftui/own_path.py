"""Keeps what the user puts on ``PYTHONPATH`` for the training from standing in for our modules.

``python -m perftui.own_path MODULE [ARGS...]`` runs a module of ours so.
"""

import os
import sys


def look_there_last() -> None:
    """Look for modules in ``PYTHONPATH`` only where they are nowhere else.

    A project may hold a ``typing.py``, or another release of what we use. The variable itself
    stays as it is: the training gets it from the environment. Call it before other imports.
    """
    given = os.environ.get("PYTHONPATH")
    if given:
        # Not pathlib: it imports much that must not be found there.
        theirs = {os.path.abspath(entry) for entry in given.split(os.pathsep)}  # noqa: PTH100
        sys.path.sort(key=lambda entry: os.path.abspath(entry) in theirs)  # noqa: PTH100


def main() -> None:
    """Run the module that is named, with the arguments after it."""
    look_there_last()
    import runpy

    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
