"""The curve of workers: its best number, and how it is kept."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.data_loader.loader import (
    LEVEL,
    CurvePoint,
    WorkerCurve,
    read_worker_curve,
    write_worker_curve,
)
from perftui.run.layout import RunLayout

STEPS = st.lists(st.integers(1, 10**9), max_size=8)


def curve(*steps: int) -> WorkerCurve:
    return WorkerCurve(tuple(CurvePoint(1 << at, step) for at, step in enumerate(steps)))


def test_the_best_is_the_fewest_that_others_do_not_beat() -> None:
    assert curve(40, 20, 10, 12).best == 4
    assert curve(1000, 990, 980).best == 1
    assert curve(1000, 960, 950).best == 2
    assert curve().best is None


@given(STEPS)
def test_no_number_beats_the_best_by_more_than_a_level(steps: list[int]) -> None:
    found = curve(*steps)
    by_count = {one.workers: one.step_ns for one in found.points}
    if found.best is None:
        assert not steps
        return
    best = by_count[found.best]
    assert best <= min(steps) * (1 + LEVEL)
    assert all(
        step > min(steps) * (1 + LEVEL) for count, step in by_count.items() if count < found.best
    )


def test_it_is_level_where_the_last_number_brought_nothing() -> None:
    assert not curve(40).is_level
    assert not curve(40, 20).is_level
    assert curve(40, 39).is_level
    assert curve(40, 20, 22).is_level
    assert not curve().is_level


def test_it_is_kept_with_the_run(tmp_path: Path) -> None:
    assert read_worker_curve(tmp_path) is None
    write_worker_curve(tmp_path, curve(40, 20))
    assert read_worker_curve(tmp_path) == curve(40, 20)
    assert RunLayout(tmp_path).worker_curve.stat().st_mode & 0o077 == 0


def test_what_cannot_be_read_is_no_curve(tmp_path: Path) -> None:
    path = RunLayout(tmp_path).worker_curve
    for content in (b"", b"[]", b'{"points": 1}', b'{"schema": 2, "points": []}', b" " * (1 << 17)):
        path.write_bytes(content)
        assert read_worker_curve(tmp_path) is None
