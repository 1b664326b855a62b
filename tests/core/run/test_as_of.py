"""A run cut at a time says what a reader at that time was told."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perftui.run.as_of import as_of, stops_of
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status, read_manifest, write_manifest
from perftui.run.reader import RunReader, RunSnapshot
from perftui.run.table import aggregates_of
from tests.tui.recorded import START, write_run

END = START + 200 * 10**9


@pytest.fixture
def run(tmp_path: Path) -> RunSnapshot:
    over = {"status": Status.EXITED, "exit_code": 3, "ended_ns": END}
    root = write_run(tmp_path, steps=60, gpu=True, workers=2, **over)
    return RunReader(root).poll()


def earlier(root: Path, time: int, target: Path) -> Path:
    """A copy of the run at ``root`` with its journals cut at ``time``, line by line."""
    shutil.copytree(root, target)
    for path in target.rglob("*.jsonl"):
        head, *lines = path.read_text().splitlines()
        names = [column["name"] for column in json.loads(head)["columns"]]
        at = names.index("start" if "start" in names else "time")
        long = names.index("duration") if "start" in names else None
        rows = [json.loads(line) for line in lines]
        kept = [row for row in rows if row[at] + (row[long] if long is not None else 0) <= time]
        path.write_text("\n".join([head, *map(json.dumps, kept)]) + "\n")
    manifest = read_manifest(RunLayout(target).manifest)
    live = replace(manifest, status=Status.RUNNING, exit_code=None, ended_ns=None)
    write_manifest(RunLayout(target).manifest, live)
    return target


@pytest.mark.parametrize("steps", [0, 1, 2, 30, 59, 60])
def test_it_equals_what_was_read_then(run: RunSnapshot, tmp_path: Path, steps: int) -> None:
    time = stops_of(run).at_step(steps)
    cut = as_of(run, time)
    live = RunReader(earlier(run.root, time, tmp_path / "then")).poll()
    assert replace(cut.manifest, notes=()) == replace(live.manifest, notes=())
    for one, other in zip(cut.ranks, live.ranks, strict=True):
        assert len(one.steps) == steps
        for table, then in ((one.steps, other.steps), (one.events, other.events)):
            for name in then.values:
                assert table[name].tolist() == then[name].tolist()
    for host, table in live.telemetry.items():
        for name in table.values:
            np.testing.assert_array_equal(cut.telemetry[host][name], table[name])


def test_at_its_end_it_is_the_run_itself(run: RunSnapshot) -> None:
    assert as_of(run, END) is run
    assert as_of(run, END - 1).manifest.exit_code is None
    assert stops_of(run).at_step(61) == END


def test_a_step_is_known_once_it_has_ended(run: RunSnapshot) -> None:
    time = stops_of(run).at_step(10)
    assert len(as_of(run, time - 1).ranks[0].steps) == 9
    assert len(as_of(run, time).ranks[0].steps) == 10
    assert stops_of(run).steps_at(time) == 10
    assert stops_of(run).steps_at(time - 1) == 9


def test_a_window_is_known_once_it_was_saved(run: RunSnapshot) -> None:
    rank = run.ranks[0]
    told, untold = Path("windows/20.pt.trace.json"), Path("windows/30.pt.trace.json")
    events = {name: list(column) for name, column in rank.events.values.items()}
    stops = stops_of(run)
    for name, value in {
        "time": stops.at_step(25), "kind": "window", "duration": 5, "step": 20,
        "data": {"file": str(told), "first_step": 20},
    }.items():  # fmt: skip
        events[name].append(value)
    columns = {
        name: np.array(values, dtype=rank.events[name].dtype) for name, values in events.items()
    }
    table = replace(rank.events, values=columns)
    run = replace(run, ranks=(replace(rank, events=table, windows=(told, untold)),))

    def windows(step: int) -> tuple[Path, ...]:
        return as_of(run, stops.at_step(step)).ranks[0].windows

    assert windows(24) == ()
    assert windows(25) == (told,)
    # Steps count from 0, so the window of step 30 can be there once 31 have ended.
    assert windows(30) == (told,)
    assert windows(31) == (told, untold)


def test_sums_are_known_from_the_last_of_them_on(run: RunSnapshot) -> None:
    rank = run.ranks[0]
    rows = np.arange(len(rank.steps))
    between = (rows >= 20) & (rows < 40)
    sums = aggregates_of(rank.steps.where(between))
    kept = replace(rank.steps.where(~between), sums=sums)
    run = replace(run, ranks=(replace(rank, steps=kept),))
    stops = stops_of(run)
    assert stops.summed == 20
    assert not as_of(run, stops.at_step(20)).ranks[0].steps.sums
    assert as_of(run, stops.at_step(21)).ranks[0].steps.sums.of("train").rows == 20
