"""Bits of the reasons why clocks are low, against the names that NVML gives them."""

from __future__ import annotations

import pynvml
import pytest

from perftui.telemetry.gpu.names import (
    CLOCK_LIMITS,
    IDLE,
    POWER,
    SETTING,
    THERMAL,
    bits_of,
    clock_limit_words,
)


@pytest.mark.parametrize("limit", CLOCK_LIMITS, ids=lambda limit: limit.words)
def test_each_bit_is_that_of_nvml(limit: object) -> None:
    assert getattr(pynvml, limit.nvml) == limit.bit  # type: ignore[attr-defined]


def test_every_reason_of_nvml_is_there_once() -> None:
    assert sum(limit.bit for limit in CLOCK_LIMITS) == pynvml.nvmlClocksEventReasonAll
    assert len({limit.words for limit in CLOCK_LIMITS}) == len(CLOCK_LIMITS)


def test_kinds_part_the_reasons() -> None:
    assert bits_of(THERMAL) == 0x08 | 0x20 | 0x40
    assert bits_of(POWER) == 0x04 | 0x80
    whole = sum(bits_of(kind) for kind in (THERMAL, POWER, IDLE, SETTING))
    assert whole == pynvml.nvmlClocksEventReasonAll


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (0, ()),
        (0x1, ("idle",)),
        (0x24, ("power cap", "thermal limit")),
        (0x40 | 0x8000, ("hardware thermal limit", "reason 0x8000")),
    ],
)
def test_reasons_in_words(reasons: int, words: tuple[str, ...]) -> None:
    assert clock_limit_words(reasons) == words
