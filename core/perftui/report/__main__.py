"""Keeps the diagnosis of an ended run beside it: ``python -m perftui.report RUN_DIRECTORY``."""

from __future__ import annotations

import argparse
from pathlib import Path

from perftui.report.conclude import conclude


def main() -> None:
    """Diagnose the run in the directory given and write its findings."""
    parser = argparse.ArgumentParser(prog="python -m perftui.report", description=__doc__)
    parser.add_argument("root", type=Path)
    conclude(parser.parse_args().root)


if __name__ == "__main__":
    main()
