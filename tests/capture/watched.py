"""Runs trainings with and without perftui, and reads what was recorded of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perftui.agent
from perftui.recorder.rank_journals import StepAssembler
from perftui.recorder.spool import RingReader
from perftui.run.columns import STEP_COLUMNS
from perftui.run.reader import RunReader, RunSnapshot, list_runs
from perftui.wire.spool import SPOOL_VARIABLE, Spool
from tests.sooner import LATE

HERE = Path(__file__).parent
INJECT = Path(perftui.agent.__file__).parent / "inject"

PERFTUI = (sys.executable, "-m", "perftui_tui", "--headless", "--runs", "runs")
DEVICE = os.environ.get("TRAIN_ON", "cpu")
"""What the trainings run on: ``TRAIN_ON=cuda`` has all of these tests use the GPU."""

PATIENCE = 120.0 if DEVICE == "cpu" else 300.0
"""Seconds that a training may take; a busy machine imports torch for ten, and each process that
uses CUDA needs some for that."""

Row = dict[str, Any]
"""A step, by the names of ``STEP_COLUMNS``."""


def clean_environment() -> dict[str, str]:
    """The tests' own without anything of perftui in it; commands beside this Python come first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERFTUI")}
    kept.pop("PYTHONPATH", None)
    kept["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return kept


def quick_environment() -> dict[str, str]:
    """The same, where trainings start sooner."""
    return {**clean_environment(), "PYTHONPATH": str(LATE)}


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


def ended(command: tuple[str, ...], cwd: Path, env: dict[str, str] | None = None) -> Ended:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env or clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        # Ranks that wait for one another would wait for ever.
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return Ended(process.returncode, out, err)


def ended_with_agent(command: tuple[str, ...], cwd: Path, spool: Path) -> Ended:
    """The same with the agent in it, and nobody who reads what it writes to ``spool``."""
    spool.mkdir(mode=0o700, exist_ok=True)
    env = {**clean_environment(), "PYTHONPATH": str(INJECT), SPOOL_VARIABLE: str(spool)}
    return ended(command, cwd, env)


def together(runs: Iterable[Ended]) -> Ended:
    """Several commands as if they had run one after the other."""
    runs = list(runs)
    return Ended(
        max((run.code for run in runs), key=abs),
        "".join(run.out for run in runs),
        "".join(run.err for run in runs),
    )


def steps_in(spool: Path, pid: int) -> list[Row]:
    """The steps of one process, as the recorder would write them."""
    reader = RingReader(spool / f"ring-{pid}")
    assembler = StepAssembler()
    rows = [row for record in reader.poll() for row in assembler.add(record, 0)]
    rows += assembler.expire(0, hold=0)
    assert reader.lost == 0
    reader.close()
    return [dict(zip((one.name for one in STEP_COLUMNS), row, strict=True)) for row in rows]


def windows_in(spool: Path) -> list[Path]:
    """The files of all windows."""
    return sorted(Spool(spool).root.glob("window-*.json"))


def recorded(directory: Path) -> RunSnapshot:
    """The only run below ``directory``."""
    (entry,) = list_runs(directory / "runs")
    return RunReader(entry.root).poll()
