"""`perftui compare` with several runs of each side: named, or found beside the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftui_tui.cli import main
from tests.described import described
from tests.tui.test_check import Capture, place, record

__all__ = ["place"]

SLOW = (160, 162, 158, 161, 159, 160)
FAST = (118, 117, 119, 118, 120, 118)


def recorded(place: Path, letter: str, waits: tuple[int, ...], **changes: Any) -> list[Path]:
    """Runs of one commit, those of ``a`` and ``b`` in turn."""
    given = {"git_commit": letter * 40, "git_dirty": False, **changes}
    minutes = "ab".index(letter)
    return [
        record(place, f"20231114-{at:02}{minutes}000-train", hours=at, wait_ms=wait, **given)
        for at, wait in enumerate(waits)
    ]


def compared(capsys: Capture, *words: str | Path) -> tuple[int, str]:
    capsys.readouterr()
    code = main(["compare", *map(str, words)])
    return code, capsys.readouterr().out


def test_six_runs_each_have_the_interval_of_a_trial(place: Path, capsys: Capture) -> None:
    before, after = recorded(place, "a", SLOW), recorded(place, "b", FAST)
    code, printed = compared(capsys, *before, "--", *after, "--json")
    found = described("compare", printed)
    assert code == 0
    assert found["outcome"] == "faster"
    assert found["low"] <= found["ratio"] <= found["high"]
    assert found["ratio"] == pytest.approx(352 / 310, abs=0.01)
    assert found["repeats"]["before"] == [run.name for run in before]
    assert len(found["repeats"]["pairs"]) == 6
    _, printed = compared(capsys, *before, "--", *after)
    first = printed.splitlines()[0]
    assert first.startswith("faster 1.14x: 1.14x faster (1.1")
    assert first.endswith(", by 6 pairs of runs")
    assert "  before: 6 runs, usual step 350 ms to 354 ms" in printed.splitlines()
    assert "no confidence interval" not in printed


def test_repeats_are_found_and_can_be_left_out(place: Path, capsys: Capture) -> None:
    before, after = recorded(place, "a", SLOW), recorded(place, "b", FAST)
    record(place, "20231114-230000-train", hours=23, git_commit="a" * 40, git_dirty=True)
    found = described("compare", compared(capsys, before[2], after[0], "--json")[1])
    assert found["repeats"]["before"] == [run.name for run in before]
    assert found["repeats"]["after"] == [run.name for run in after]
    code, printed = compared(capsys, before[2], after[0], "--no-repeats")
    assert code == 0
    assert "  one run each: no confidence interval" in printed.splitlines()


def test_few_pairs_say_how_many_are_needed(place: Path, capsys: Capture) -> None:
    before, after = recorded(place, "a", SLOW[:3]), recorded(place, "b", FAST[:3])
    code, printed = compared(capsys, before[0], after[0])
    assert code == 0
    assert "  3 pairs of runs: a confidence interval takes 6" in printed.splitlines()
    assert printed.startswith("faster 1.14x: beyond noise: ")


def test_runs_of_one_source_are_not_each_others_repeats(place: Path, capsys: Capture) -> None:
    runs = recorded(place, "a", SLOW)
    _, printed = compared(capsys, *runs[:2])
    assert "  one run each: no confidence interval" in printed.splitlines()


def test_runs_made_one_side_after_the_other_are_said_to_be(place: Path, capsys: Capture) -> None:
    before = recorded(place, "a", SLOW)
    after = [
        record(place, f"20231115-{at:02}0000-train", hours=24 + at, wait_ms=wait)
        for at, wait in enumerate(FAST)
    ]
    _, printed = compared(capsys, *before, "--", *after)
    assert "all runs before were made before all runs after" in printed


def test_a_run_that_cannot_be_used_is_left_out_and_said(place: Path, capsys: Capture) -> None:
    before, after = recorded(place, "a", SLOW[:2]), recorded(place, "b", FAST[:2])
    short = record(place, "20231115-000000-train", hours=24, steps=15)
    _, printed = compared(capsys, *before, short, "--", *after)
    left_out = f"  {short.name} was left out: fewer than 20 steady steps"
    assert left_out in printed.splitlines()


@pytest.mark.parametrize("words", ["A", "A --", "-- A", "A B C", "A -- B -- C"])
def test_sides_that_are_missing_are_a_mistake(capsys: Capture, words: str) -> None:
    assert main(["compare", *words.split()]) == 2
    assert "compare takes two runs or traces" in capsys.readouterr().err
