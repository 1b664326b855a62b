"""Runs plain Python scripts under a real recorder."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perftui.recorder.launch import Launch, start
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import Manifest, Status, read_manifest, write_manifest
from perftui.wire.spool import Spool

PATIENCE = 30.0

SLEEPS = "import time; print('on', flush=True); time.sleep(600)"


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Wait until ``condition`` holds, or fail naming ``what`` was waited for."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, f"waited {PATIENCE} s for {what}"
        time.sleep(0.01)


class Run:
    """One run that a test started."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.layout = RunLayout(root)

    @property
    def manifest(self) -> Manifest:
        return read_manifest(self.layout.manifest)

    @property
    def output(self) -> str:
        return "" if not self.layout.output.exists() else self.layout.output.read_bytes().decode()

    def wait_for_output(self, text: str) -> None:
        wait_for(lambda: text in self.output, f"{text!r} in the output")

    def wait(self) -> Manifest:
        """The manifest once the run is over."""
        wait_for(lambda: self.manifest.status.is_over, "the end of the run")
        return self.manifest


class Starter:
    """Starts scripts given as text, each under a recorder of its own."""

    wait_for = staticmethod(wait_for)

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runs: list[Run] = []

    def script(self, source: str) -> Path:
        path = self.directory / "train.py"
        path.write_text(source)
        return path

    def launch(self, source: str, *arguments: str, **options: Any) -> Launch:
        command = (sys.executable, str(self.script(source)), *arguments)
        return Launch(command, self.directory, self.directory / "runs", **options)

    def __call__(self, source: str, *arguments: str, **options: Any) -> Run:
        return self.start(self.launch(source, *arguments, **options))

    def sleeping(self, source: str = SLEEPS, **options: Any) -> Run:
        """A run whose script has said "on", and does not end by itself."""
        run = self(source, **options)
        run.wait_for_output("on")
        return run

    def start(self, launch: Launch) -> Run:
        return self.adopt(start(launch))

    def adopt(self, root: Path) -> Run:
        run = Run(root)
        self.runs.append(run)
        return run


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    (tmp_path / "spool").mkdir()
    return Spool(tmp_path / "spool")


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    layout = create_run_directory(tmp_path / "runs", "r")
    write_manifest(layout.manifest, Manifest("r", ("python", "t.py"), "/w", 5, "elsewhere"))
    return layout


@pytest.fixture
def run_script(tmp_path: Path) -> Iterator[Starter]:
    """Start scripts; whatever still runs at the end of the test is killed."""
    starter = Starter(tmp_path)
    yield starter
    for run in starter.runs:
        if not run.layout.manifest.exists():
            continue
        manifest = run.manifest
        if manifest.status is Status.RUNNING and manifest.pid is not None:
            os.kill(manifest.pid, signal.SIGKILL)
            run.wait()
