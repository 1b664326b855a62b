"""``report --json`` of many traces and runs, kept once and compared after a change.

    python tests/golden_reports.py save KEPT TRACES GPU_RUNS
    python tests/golden_reports.py check KEPT

``TRACES`` is a directory of traces in any format, ``GPU_RUNS`` one of archives (``*.tar.xz``) of
run directories, which are unpacked into ``KEPT``. A change that moves code leaves every report
equal; one that changes reports on purpose is followed by ``save``, and says which changed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import difflib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

NOT_TRACES = {".md", ".csv", ".txt", ".py", ""}
SHOWN_LINES = 30
TIMEOUT_S = 300


def report_of(path: Path) -> str:
    """What ``perftui report --json`` prints for ``path``, or its error and exit code."""
    command = [sys.executable, "-m", "perftui_tui", "report", "--json", str(path)]
    environment = {**os.environ, "PERFTUI_CACHE": "off"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment, check=False
    )
    return done.stdout if done.returncode == 0 else f"exit {done.returncode}\n{done.stderr}"


def reports_of(paths: Sequence[Path]) -> Iterable[tuple[Path, str]]:
    """The report of each of ``paths``, two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from zip(paths, pool.map(report_of, paths), strict=True)


def save(kept: Path, traces: Path, runs: Path) -> None:
    """Write the report of every trace and run below ``kept``, one file each, and their list."""
    unpacked = kept / "runs"
    for archive in sorted(runs.glob("*.tar.xz")):
        target = unpacked / archive.name.removesuffix(".tar.xz")
        if not target.exists():
            with tarfile.open(archive) as tar:
                tar.extractall(target, filter="data")
    manifests = sorted(unpacked.rglob("run.json"))
    files = sorted(path for path in traces.rglob("*") if path.is_file())
    chosen = [path for path in files if path.suffix not in NOT_TRACES]
    listed = [path.resolve() for path in chosen] + [path.parent.resolve() for path in manifests]
    for number, (_, report) in enumerate(reports_of(listed)):
        (kept / f"{number:03d}.json").write_text(report)
    (kept / "paths.json").write_text(json.dumps([str(path) for path in listed], indent=1))
    print(f"{len(listed)} reports kept")


def check(kept: Path) -> int:
    """Print how reports differ from those kept; 1 where any does."""
    paths = [Path(path) for path in json.loads((kept / "paths.json").read_text())]
    different = 0
    for number, (path, report) in enumerate(reports_of(paths)):
        before = (kept / f"{number:03d}.json").read_text()
        if before == report:
            continue
        different += 1
        lines = difflib.unified_diff(before.splitlines(), report.splitlines(), n=0, lineterm="")
        print(f"== {path}", *list(lines)[2 : 2 + SHOWN_LINES], sep="\n")
    print(f"{len(paths) - different} of {len(paths)} reports are equal")
    return 1 if different else 0


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    saving = commands.add_parser("save")
    checking = commands.add_parser("check")
    for each in (saving, checking):
        each.add_argument("kept", type=Path)
    saving.add_argument("traces", type=Path)
    saving.add_argument("gpu_runs", type=Path)
    given = parser.parse_args()
    if given.command == "check":
        return check(given.kept)
    given.kept.mkdir(parents=True, exist_ok=True)
    save(given.kept, given.traces, given.gpu_runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
