"""The Compare screen over traces."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui_tui.screens.compare.figures import _of_all
from tests.traces.builder import ms
from tests.tui.driving import opened, settled, text_of, until_shown
from tests.tui.recorded import write_run
from tests.tui.traces import even_steps, write_trace


async def test_a_trace_is_compared_with_one_beside_it(tmp_path: Path) -> None:
    even_steps(24, compute=ms(8)).write(tmp_path / "slow.pt.trace.json")
    async with opened(write_trace(tmp_path, 24), (120, 66), replay=True) as (app, pilot):
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
            *("gemm", "1", "→", "1", "8.00", "ms", "4.00", "ms", "-4.00", "ms", "-50.0", "%")
        ]
        assert "a trace has no telemetry, losses" in " ".join(shown.split())


@pytest.mark.slow
async def test_a_large_screen_shows_what_changed_beside_the_figures(tmp_path: Path) -> None:
    even_steps(24, compute=ms(8)).write(tmp_path / "slow.pt.trace.json")
    async with opened(write_trace(tmp_path, 24), (200, 50), replay=True) as (_, pilot):
        await pilot.press("5", "b")
        await until_shown(pilot, "slow.pt.trace.json  trace")
        await pilot.press("1")
        await until_shown(pilot, "What changed most")
        shown = await settled(pilot)
        kernels = next(line for line in shown.splitlines() if "kernels of a step" in line)
        operators = next(line for line in shown.splitlines() if "operators of a step" in line)
        assert kernels.split("│")[-2].split()[-5:] == ["before", "after", "change", "of", "all"]
        assert operators.split("│")[1].split()[-5:] == ["before", "after", "change", "of", "all"]
        assert "step time, ms" in shown


@given(st.integers(-(10**9), 10**9), st.integers(0, 10**9))
def test_the_share_of_a_change_is_that_of_all_before(change: int, whole: int) -> None:
    text = _of_all(change, whole)
    if not whole:
        assert text == "–"
    else:
        shown = Decimal(text.removesuffix(" %"))
        assert abs(shown - 100 * Decimal(change) / Decimal(whole)) <= Decimal("0.051")


@pytest.mark.slow
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
