"""Measured ceilings as they are kept."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui import format as fmt
from perftui.probe.ceilings import (
    Ceiling,
    Ceilings,
    NotMeasured,
    ceilings,
    ceilings_directory,
    keep,
    rate_of,
)

FOUND = Ceilings(
    host=socket.gethostname(),
    measured_ns=1_700_000_000_000_000_000,
    rates=(rate_of(Ceiling.MEMORY, "B/s", [[3e12], [2e12, 2.5e12]], "copies"),),
    gpu="A card",
    driver="580.65.06",
    torch="2.9.0",
    path="/data",
    not_measured=(NotMeasured(Ceiling.TF32, "no room"),),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ceilings"


def test_what_is_kept_is_found_again(cache: Path) -> None:
    assert ceilings() is None
    path = keep(FOUND)
    assert path.parent == cache == ceilings_directory()
    assert path.stat().st_mode & 0o777 == 0o600
    assert ceilings() == FOUND
    found = ceilings("A card")
    rate = found.rate(Ceiling.MEMORY)
    assert (rate.value, rate.low) == (3e12, 2.25e12)
    assert found.rate(Ceiling.TF32) is None


def test_each_card_and_driver_has_its_own_and_the_newest_counts(cache: Path) -> None:
    keep(replace(FOUND, measured_ns=5))
    keep(replace(FOUND, driver="590.1", measured_ns=7))
    keep(replace(FOUND, gpu=None, driver=None, measured_ns=6))
    keep(replace(FOUND, measured_ns=8))
    assert len(list(cache.glob("*.json"))) == 3
    assert ceilings() == replace(FOUND, measured_ns=8)
    assert ceilings("Another") is None


def test_homes_are_shared_by_hosts() -> None:
    keep(replace(FOUND, host="elsewhere", measured_ns=9))
    assert ceilings() is None
    assert ceilings("A card") == replace(FOUND, host="elsewhere", measured_ns=9)
    keep(FOUND)
    assert ceilings() == ceilings("A card") == FOUND


def test_what_is_damaged_or_newer_is_as_if_it_were_not_there(cache: Path) -> None:
    path = keep(FOUND)
    (cache / "a.json").write_bytes(b'{"schema": 1, "host": 3}')
    (cache / "b.json").write_bytes(path.read_bytes().replace(b'"schema":1', b'"schema":2'))
    (cache / "c.json").write_bytes(path.read_bytes()[:-5])
    (cache / "d.json").write_bytes(b" " * 100_000 + path.read_bytes())
    assert ceilings() == FOUND


def test_nothing_is_kept_where_nothing_is_to_be_or_others_can_write(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(FOUND)
    cache.chmod(0o777)
    assert keep(FOUND) is None
    assert ceilings() is None
    monkeypatch.setenv("PERFTUI_CACHE", "off")
    assert (keep(FOUND), ceilings()) == (None, None)


@given(st.lists(st.lists(st.floats(1, 1e15), min_size=1), min_size=1))
def test_the_best_median_is_no_single_reading(rounds: list[list[float]]) -> None:
    rate = rate_of(Ceiling.MEMORY, "B/s", rounds, "")
    assert min(map(min, rounds)) <= rate.low <= rate.value <= max(map(max, rounds))
    assert 0 <= rate.spread < 1
    assert rate.repeats == sum(map(len, rounds))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (7.123e14, "FLOP/s", "712 TFLOP/s"),
        (9.87e9, "B/s", "9.9 GB/s"),
        (9.999e8, "B/s", "1.0 GB/s"),
        (3.2e6, "B/s", "3.2 MB/s"),
        (12.0, "B/s", "12 B/s"),
    ],
)
def test_rates_have_decimal_prefixes(value: float, unit: str, text: str) -> None:
    assert fmt.rate(value, unit) == text
