"""Rates from counters, samples of all sources, and pressure."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.run.journal import Column
from perftui.telemetry.contention import PressureSource
from perftui.telemetry.source import Rate, Sampler


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), min_size=1))
def test_rates_times_seconds_give_the_counter_back(changes: list[tuple[int, int]]) -> None:
    rate, value, now = Rate(), 7, 0
    assert rate.update(value, now) is None
    total = 0.0
    for change, seconds in changes:
        value, now = value + change, now + seconds
        speed = rate.update(value, now)
        assert speed is not None
        total += speed * seconds
    assert total == pytest.approx(value - 7)


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
    for resource in ("cpu", "io"):
        absent = PressureSource(resource, tmp_path)
        why = f"{tmp_path}/{resource}: No such file or directory"
        assert (absent.columns, absent.sample(0.0)) == ((), [])
        assert absent.missing == {f"pressure.{resource}": why}


def test_failing_source_is_left_out_and_said_once() -> None:
    class Broken:
        columns = (Column("broken"),)

        def sample(self, _now: float) -> list[float | None]:
            raise RuntimeError("driver is gone")

    class Steady:
        columns = (Column("steady"),)

        def sample(self, _now: float) -> list[float | None]:
            return [1.0]

    said: list[tuple[str, str]] = []
    sampler = Sampler([Broken(), Steady()], lambda name, error: said.append((name, str(error))))
    rows = [sampler.sample() for _ in range(3)]
    assert [column.name for column in sampler.columns] == ["time", "broken", "steady"]
    assert [row[1:] for row in rows] == [[None, 1.0]] * 3
    assert said == [("Broken", "driver is gone")]
