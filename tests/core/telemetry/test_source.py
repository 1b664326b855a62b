"""Rates from counters, how often what costs much is read, and samples of all sources."""

import gc
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.run.journal import Column
from perftui.telemetry.contention import PressureSource
from perftui.telemetry.source import (
    STALE_SECONDS,
    BackgroundSource,
    Pace,
    Rate,
    Rates,
    Sampler,
    side_by_side,
)


def test_rate_is_unknown_after_a_gap_and_where_the_counter_fell() -> None:
    rate = Rate()
    assert [rate.update(v, t) for v, t in [(5, 0), (3, 1), (4, 2), (None, 3), (9, 4), (9, 4)]] == [
        None,
        None,
        1.0,
        None,
        None,
        None,
    ]


def test_pressure_from_totals(tmp_path: Path) -> None:
    def write(total: object) -> None:
        (tmp_path / "cpu").write_text(
            f"some avg10=9.00 avg60=1.00 avg300=0.00 total={total}\nfull avg10=0.00 total=1\n"
        )

    write(1_000_000)
    source = PressureSource("cpu", tmp_path)
    assert [column.name for column in source.columns] == ["pressure.cpu"]
    assert source.missing == {}
    assert source.sample(0.0) == [None]
    write(1_250_000)
    assert source.sample(1.0) == [25.0]
    write("cut")
    assert source.sample(2.0) == [None]
    (tmp_path / "cpu").unlink()
    assert source.sample(3.0) == [None]


def test_readings_are_some_seconds_apart_and_dear_ones_further() -> None:
    pace = Pace(3.0, 0.01)
    assert pace.is_due(100.0)
    pace.spent(100.0, 0.001)
    assert not pace.is_due(102.9)
    assert pace.is_due(103.0)
    pace.spent(103.0, 0.2)
    assert not pace.is_due(122.9)
    assert pace.is_due(123.0)


def test_one_dear_reading_now_and_then_delays_no_other() -> None:
    pace = Pace(0.5, 0.01, ahead=5.0)
    for turn in range(10):
        assert pace.is_due(0.5 * turn)
        pace.spent(0.5 * turn, 0.03 if turn == 2 else 0.001)


def test_what_a_reading_computes_is_its_cost() -> None:
    pace = Pace(0.0, 1e-6)
    with pace.reading(1.0):
        sum(range(100_000))
    assert not pace.is_due(2.0)


def test_a_reading_that_fails_has_cost_as_well() -> None:
    pace = Pace(5.0, 0.01)
    with pytest.raises(ValueError, match="broken"), pace.reading(1.0):
        raise ValueError("broken")
    assert not pace.is_due(2.0)


@pytest.mark.slow
@given(
    costs=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=200),
    every=st.floats(0.01, 10.0),
    share=st.floats(0.001, 1.0),
    ahead=st.floats(0.0, 10.0),
)
def test_the_share_is_kept_whatever_readings_cost(
    costs: list[float], every: float, share: float, ahead: float
) -> None:
    pace, now, spent = Pace(every, share, ahead), 0.0, 0.0
    for cost in costs:
        while not pace.is_due(now):
            now += every
        # All before this one is paid for, but for what may be left for later.
        assert spent <= share * (now + ahead) + 1e-6
        pace.spent(now, cost)
        spent += cost


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 1000), max_size=3), min_size=2)
)
def test_a_counter_that_comes_goes_or_begins_anew_makes_no_jump(
    readings: list[dict[str, int]],
) -> None:
    rates = Rates()
    assert rates.update(readings[0], 0) is None
    for number, (before, after) in enumerate(pairwise(readings), 1):
        changes = [after[k] - before[k] for k in after if k in before and after[k] >= before[k]]
        expected = sum(changes) / 2 if changes else None
        assert rates.update(after, 2 * number) == expected


class Asked:
    """Counts how often it is asked; waits for ``goes_on`` where that is cleared."""

    def __init__(self, name: str = "one") -> None:
        self.columns = (Column(name),)
        self.count = 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: Exception | None = None
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def sample(self, now: float) -> list[float | None]:
        self.count += 1
        self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return [now]


@pytest.fixture
def asked() -> Iterator[Asked]:
    source = Asked()
    yield source
    source.goes_on.set()


def test_a_sample_is_that_of_its_moment(asked: Asked) -> None:
    source = BackgroundSource("card", asked, patience=20.0)
    assert source.columns == asked.columns
    assert [source.sample(now) for now in (1.0, 2.0, 2.5)] == [[1.0], [2.0], [2.5]]


def test_a_call_that_hangs_is_waited_for_once_and_asked_once(asked: Asked) -> None:
    source = BackgroundSource("card", asked, patience=20.0)
    assert source.sample(1.0) == [1.0]
    source._patience = 0.2
    source._latest = replace(source._latest, seconds=0.0)
    asked.goes_on.clear()
    began = time.monotonic()
    # The reading before is that of the moment, until it is too old.
    assert source.sample(2.0) == [1.0]
    assert time.monotonic() - began >= 0.2
    began = time.monotonic()
    assert source.sample(1.0 + STALE_SECONDS) == [None]
    assert source.sample(100.0) == [None]
    assert time.monotonic() - began < 0.2
    assert asked.count == 2


def test_a_card_that_answers_again_is_sampled_again(asked: Asked) -> None:
    source = BackgroundSource("card", asked, patience=0.05)
    asked.goes_on.clear()
    assert source.sample(1.0) == [None]
    time.sleep(0.05)
    asked.goes_on.set()
    # Not waited for, since the last took long.
    assert _until(source, 2.0, {1.0, 2.0})
    assert _until(source, 2.5, {2.5})
    source._patience = 20.0
    assert source.sample(3.0) == [3.0]


def _until(source: BackgroundSource, now: float, values: set[float]) -> bool:
    """Sample until the reading is one of ``values``."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        (value,) = source.sample(now)
        if value in values:
            return True
        time.sleep(0.001)
    return False


def test_a_source_that_is_slow_by_nature_is_asked_seldom(asked: Asked) -> None:
    source = BackgroundSource("card PCIe", asked, patience=0.0, every=2.0)
    for now, last in ((10.0, 10.0), (11.0, 10.0), (11.9, 10.0), (12.0, 12.0), (13.0, 12.0)):
        assert _until(source, now, {last})
    assert asked.count == 2


@pytest.mark.slow
def test_a_thread_ends_with_its_source(asked: Asked) -> None:
    source = BackgroundSource("ends with its source", asked, patience=20.0)
    assert not _threads("ends with its source")
    source.sample(1.0)
    (thread,) = _threads("ends with its source")
    del source
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()


def _threads(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def test_a_source_is_closed_unless_a_call_of_it_hangs(asked: Asked) -> None:
    source = BackgroundSource("card", asked, patience=0.05)
    asked.goes_on.clear()
    source.sample(1.0)
    source.close()
    assert not asked.is_closed
    asked.goes_on.set()
    assert _until(source, 2.0, {1.0, 2.0})
    assert _until(source, 2.5, {2.5})
    Sampler([source], lambda *_: None).close()
    assert asked.is_closed


def test_what_a_source_raises_leaves_it_out_by_its_name(asked: Asked) -> None:
    failed: list[tuple[str, str]] = []
    others = Asked("two")
    sampler = Sampler(
        [BackgroundSource("gpu3", asked, patience=20.0), others],
        lambda name, error: failed.append((name, str(error))),
    )
    asked.error = OSError("gone")
    assert [column.name for column in sampler.columns] == ["time", "one", "two"]
    for _ in range(3):
        _, one, two = sampler.sample()
        assert one is None
        assert two is not None
    assert failed == [("gpu3", "gone")]
    assert asked.count == 1


def test_several_sources_are_one() -> None:
    empty = Asked("none")
    empty.columns = ()
    source = BackgroundSource("both", Asked("one"), empty, Asked("two"), patience=20.0)
    assert [column.name for column in source.columns] == ["one", "two"]
    assert source.sample(4.0) == [4.0, 4.0]


@pytest.mark.slow
def test_tasks_run_at_the_same_time_and_late_ones_are_reported() -> None:
    both = threading.Barrier(2, timeout=20)
    never = threading.Event()

    def meet() -> str:
        both.wait()
        return "met"

    def fail() -> str:
        raise ValueError("no")

    def hang() -> str:
        never.wait()
        return "late"

    assert side_by_side([meet, meet], 20.0) == ["met", "met"]
    failed, late, fine = side_by_side([fail, hang, lambda: "fine"], 1.0)
    assert isinstance(failed, ValueError)
    assert isinstance(late, TimeoutError)
    assert str(late) == "no answer within 1 s"
    assert fine == "fine"
    never.set()
    assert side_by_side([], 1.0) == []
