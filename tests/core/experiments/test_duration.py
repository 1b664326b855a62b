"""How long a trial is said to take: the start of each run, and its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui import format as fmt
from perftui.experiments.trial_runs import run_seconds
from perftui.facts.fact import Facts
from perftui.run.reader import RunReader
from tests.tui.recorded import write_run


def test_a_run_takes_its_start_and_its_steps(tmp_path: Path) -> None:
    run = Facts(RunReader(write_run(tmp_path)).poll())
    few, many = run_seconds(run, 0), run_seconds(run, 100)
    assert few is not None
    assert many is not None
    # Eight seconds until the first step, which takes 0.9 s longer than those of 310 ms.
    assert few == pytest.approx(8.9, abs=0.1)
    assert many - few == pytest.approx(31.0, abs=0.2)


def test_without_steps_nothing_is_known(tmp_path: Path) -> None:
    assert run_seconds(Facts(RunReader(write_run(tmp_path, steps=0)).poll()), 100) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0, "10 s"), (44, "40 s"), (54, "50 s"), (55, "1 min"), (239, "4 min")),
        *((3599, "1 h"), (3600, "1 h"), (4800, "1 h 20 min")),
    ],
)
def test_a_rough_time_is_said_roughly(seconds: float, words: str) -> None:
    assert fmt.rough_time(seconds) == words


@pytest.mark.parametrize(
    ("fewest", "most", "words"),
    [
        *((100, 290, "2 to 5 min"), (20, 40, "20 to 40 s"), (40, 120, "40 s to 2 min")),
        *((120, 121, "2 min"), (600, 4800, "10 min to 1 h 20 min"), (3600, 7200, "1 to 2 h")),
    ],
)
def test_a_range_of_times_has_its_unit_once(fewest: float, most: float, words: str) -> None:
    assert fmt.rough_range(fewest, most) == words
