"""The Compare screen over traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.traces.builder import ms
from tests.tui.driving import opened, text_of, until_shown
from tests.tui.recorded import write_run
from tests.tui.traces import even_steps, write_trace


async def test_a_trace_is_compared_with_one_beside_it(tmp_path: Path) -> None:
    even_steps(24, compute=ms(8)).write(tmp_path / "slow.pt.trace.json")
    async with opened(write_trace(tmp_path, 24), (120, 60), replay=True) as (app, pilot):
        await pilot.press("5")
        await until_shown(pilot, "press b to choose another trace")
        await pilot.press("b")
        await until_shown(pilot, "slow.pt.trace.json  trace")
        await pilot.press("1")
        await until_shown(pilot, "BEFORE  slow.pt.trace.json")
        await until_shown(pilot, "kernels of a step")
        shown = text_of(app)
        assert "AFTER   rank0.pt.trace.json" in shown
        assert "NO CLEAR DIFFERENCE" in shown
        gemm = next(line for line in shown.splitlines() if "gemm" in line)
        assert gemm.split("│")[1].split() == [
            *("gemm", "1", "→", "1", "8.00", "ms", "4.00", "ms", "-4.00", "ms")
        ]
        assert "a trace holds no telemetry, no losses" in " ".join(shown.split())


async def test_a_trace_is_compared_with_a_run_and_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / ".perftui" / "runs", run_id="20231114-201320-train")
    folder = tmp_path / "traces"
    folder.mkdir()
    async with opened(write_trace(folder, 24), replay=True) as (_, pilot):
        await pilot.press("5", "b")
        await until_shown(pilot, run.name)
        await pilot.press("1")
        await until_shown(pilot, "no window of the first run was profiled")


async def test_a_run_is_compared_with_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_trace(tmp_path, 24)
    run = write_run(tmp_path / ".perftui" / "runs", run_id="20231114-201320-train")
    async with opened(run) as (_, pilot):
        await pilot.press("5", "b")
        await until_shown(pilot, "rank0.pt.trace.json  trace")
        await pilot.press("1")
        await until_shown(pilot, "no window of the second run was profiled")


async def test_nothing_beside_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(write_trace(tmp_path), replay=True) as (_, pilot):
        await pilot.press("5", "b")
        await until_shown(pilot, "no other run or trace")
