"""Measuring the machine from the app: asked for, followed, stopped, refused."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from perftui.probe.ceilings import Ceiling, Ceilings, rate_of
from perftui.probe.probe import ProbeCancelledError, WorkerError
from perftui_tui.reading.experiment_state import Stage
from tests.tui.driving import opened, text_of, until, until_shown
from tests.tui.recorded import ENDED, write_run
from tests.tui.shown_keys import press_shown
from tests.tui.test_paired_trials import until_told

HOST = socket.gethostname()


class FakeProbe:
    """Stands in for ``perftui.probe.probe.probe``, and waits to be let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.error: Exception | None = None
        self.asked: list[tuple[str, Path]] = []

    def __call__(
        self,
        python: str,
        path: Path,
        _: float | None,
        tell: Callable[[str], object],
        cancelled: threading.Event,
    ) -> Ceilings:
        self.asked.append((python, path))
        tell("disk read")
        while not self.go.wait(0.02):
            if cancelled.is_set():
                raise ProbeCancelledError
        if self.error is not None:
            raise self.error
        rate = rate_of(Ceiling.DISK_READ, "B/s", [[2e9]], "one file")
        return Ceilings(HOST, 10**18, (rate,), torch="2.13.0", path=str(path))


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> FakeProbe:
    made = FakeProbe()
    monkeypatch.setattr("perftui.probe.probe.probe", made)
    return made


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    disk = {HOST: {"disk": "sda", "place": str(tmp_path), "file_system": "ext4"}}
    return write_run(tmp_path, host=HOST, profile={"data_disk": disk}, **ENDED)


@pytest.mark.keys("app.probe")
async def test_it_is_measured_where_the_data_lies_and_kept(
    ended: Path, probe: FakeProbe, tmp_path: Path
) -> None:
    async with opened(ended, (100, 30)) as (app, pilot):
        await pilot.press("B")
        await until_shown(pilot, "Measure this machine?")
        assert "perftui probe --path" in text_of(app)
        await press_shown(pilot, "enter", "measure, about 12 s")
        await until_shown(pilot, "measuring what this machine can do, disk read done")
        await press_shown(pilot, "escape", "close this; measuring goes on")
        await until(pilot, lambda: len(app.screen_stack) == 1, "no dialog")
        await until_shown(pilot, "probe  measuring what")
        await pilot.press("X")
        probe.go.set()
        await until_told(app, pilot, "probe: measured 1 peak rate of this machine")
        await until_shown(pilot, "2.0 GB/s")
    (asked,) = probe.asked
    assert asked[1] == tmp_path


@pytest.mark.slow
async def test_it_is_stopped_and_nothing_is_kept(ended: Path, probe: FakeProbe) -> None:
    async with opened(ended, (100, 30)) as (app, pilot):
        await pilot.press("B")
        await until_shown(pilot, "Measure this machine?")
        await pilot.press("enter")
        await press_shown(pilot, "s", "stop measuring")
        await until_told(app, pilot, "probe: stopped: nothing is kept")
        state = app.trials.probing.state
        assert state is not None
        assert (state.stage, state.found) == (Stage.STOPPED, None)
    del probe


@pytest.mark.slow
async def test_a_failure_has_its_reason(ended: Path, probe: FakeProbe) -> None:
    probe.error = WorkerError("No module named torch")
    probe.go.set()
    async with opened(ended, (100, 30)) as (app, pilot):
        await pilot.press("B")
        await until_shown(pilot, "Measure this machine?")
        await pilot.press("enter")
        await until_told(app, pilot, "probe: failed: No module named torch")


@pytest.mark.slow
async def test_quitting_asks_and_ends_it(ended: Path, probe: FakeProbe) -> None:
    async with opened(ended, (100, 30)) as (app, pilot):
        await pilot.press("B")
        await until_shown(pilot, "Measure this machine?")
        await pilot.press("enter")
        await press_shown(pilot, "escape", "close this")
        await until(pilot, lambda: len(app.screen_stack) == 1, "no dialog")
        await pilot.press("q")
        await until_shown(pilot, "A probe is still running")
        assert "quitting stops it." in text_of(app)
        await press_shown(pilot, "s", "stop the probe and quit")
        await until(pilot, lambda: not app.is_running, "the end")
    del probe


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"host": HOST, "status": "running"}, "the training is still running"),
        ({"host": "elsewhere", **ENDED}, "this run is of elsewhere"),
    ],
)
async def test_it_is_refused_where_it_would_be_wrong(
    tmp_path: Path, probe: FakeProbe, changes: dict[str, object], why: str
) -> None:
    async with opened(write_run(tmp_path, **changes), (100, 30)) as (app, pilot):
        await pilot.press("B")
        await until_told(app, pilot, why)
    assert not probe.asked
