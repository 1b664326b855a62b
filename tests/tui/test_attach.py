"""`perftui attach`: which run is meant, what is said where none lives, and how it is left."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftui.recorder.launch import Launch, start
from perftui.run.control import STOP, request
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status, wait_until_over
from perftui.run.reader import RunReader
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from tests.terminal import Terminal
from tests.tui.driving import opened
from tests.tui.recorded import START, write_run

AGENT = Path(__file__).parents[1] / "core" / "recorder" / "fake_agent.py"


@pytest.fixture
def attached(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that the app would have been opened on, on a machine with a terminal."""
    seen: list[Path] = []
    monkeypatch.setattr("perftui_tui.commands.show.why_headless", lambda _: None)

    def run(app: PerftuiApp) -> None:
        assert (app.attached_to, app.is_replay) == (app.target, False)
        seen.append(app.target)

    monkeypatch.setattr("perftui_tui.app.PerftuiApp.run", run)
    return seen


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An older run that lives and a newer one that is over, in a project's directory of runs."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".perftui" / "runs"
    write_run(runs, run_id="20231114-100000-live", started_ns=START)
    write_run(runs, run_id="20231114-110000-over", started_ns=START + 1, status="exited")
    return runs


@pytest.mark.parametrize("word", ["", ".", "live", "20231114-100000-live", ".perftui/runs"])
def test_the_run_that_lives_is_meant(runs: Path, attached: list[Path], word: str) -> None:
    assert main(["attach", *filter(None, [word])]) == 0
    assert attached == [runs / "20231114-100000-live"]


def test_leaving_says_how_to_come_back(
    runs: Path, attached: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["attach"])
    printed = capsys.readouterr().err
    assert "train.py is still running" in printed
    assert f"perftui attach {runs / '20231114-100000-live'}" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["over"], "20231114-110000-over, ended with exit code 3; perftui replay"),
        (["."], "no training is running in"),
        (["."], "the newest, 20231114-110000-over, ended with exit code 3; perftui replay"),
        (["nothing"], "no run 'nothing'"),
        (["--runs", "nowhere"], "no recorded run in"),
        (["a", "b"], "unexpected 'b'"),
    ],
)
def test_what_cannot_be_attached_to_is_said_with_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    attached: list[Path],
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".perftui" / "runs"
    write_run(runs, run_id="20231114-110000-over", status="exited", exit_code=3)
    assert main(["attach", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert attached == []


def test_without_a_terminal_the_report_is_named(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["attach", "--headless"]) == 2
    said = capsys.readouterr().err
    assert f"perftui report {runs / '20231114-100000-live'}" in said


async def test_leaving_asks_nothing_and_the_size_of_the_window_is_nobodys_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path)
    own = PerftuiApp.__init__

    def watching(app: PerftuiApp, target: Path, **options: bool) -> None:
        own(app, target, **options)
        app.attached_to = target

    monkeypatch.setattr(PerftuiApp, "__init__", watching)
    async with opened(run) as (app, pilot):
        await pilot.resize_terminal(100, 30)
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running
    assert list(RunLayout(run).control.glob("*")) == []


@pytest.fixture
def viewers(tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    """Opens terminals in which `perftui attach` runs."""
    opened: list[Terminal] = []

    def view() -> Terminal:
        opened.append(Terminal([sys.executable, "-m", "perftui_tui", "attach"], tmp_path))
        return opened[-1]

    yield view
    for one in opened:
        one.close()


@pytest.mark.slow
@pytest.mark.subprocess
def test_two_watch_one_training_and_neither_ends_it(
    tmp_path: Path, viewers: Callable[[], Terminal]
) -> None:
    command = (sys.executable, str(AGENT), "100000", "0.01")
    root = start(Launch(command, tmp_path, tmp_path / ".perftui" / "runs"))
    first, second = viewers(), viewers()
    for viewer in (first, second):
        viewer.wait_for("live")
        viewer.wait_for("Step")
    first.press("q")
    assert first.wait() == 0
    assert b"perftui attach" in first.written
    os.killpg(second.process.pid, signal.SIGKILL)
    second.wait()
    reader = RunReader(root)
    before = len(reader.poll().ranks[0].steps)
    until = time.monotonic() + 30
    while len(reader.poll().ranks[0].steps) < before + 50:
        assert time.monotonic() < until, "the training stopped"
        time.sleep(0.05)
    request(RunLayout(root), STOP)
    assert wait_until_over(root, 30).status is Status.KILLED
