"""The recorder as a process of its own: ``python -m perftui.recorder RUN_DIRECTORY``."""

from __future__ import annotations

import argparse
from pathlib import Path

from perftui.recorder.detached import record


def main() -> None:
    """Record the run whose manifest waits in the directory given."""
    parser = argparse.ArgumentParser(prog="python -m perftui.recorder", description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--columns", type=int, required=True)
    arguments = parser.parse_args()
    record(arguments.root, arguments.rows, arguments.columns)


if __name__ == "__main__":
    main()
