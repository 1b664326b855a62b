"""What GPUs are called, the reasons why clocks are low, and which GPUs a training sees."""

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.gpu.names import (
    CLOCK_LIMITS,
    IDLE,
    POWER,
    SETTING,
    THERMAL,
    Gpu,
    bits_of,
    clock_limit_words,
    gpu_name,
    gpu_prefixes,
    visible_gpus,
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


A, B, C = (Gpu(f"gpu{n}", "H100", f"GPU-{n}{n}aa-bb{n}") for n in range(3))
CARDS = (A, B, C)
SPLIT = Gpu("gpu0", "A100", "GPU-0000-11")
PART0, PART1 = (Gpu(f"gpu0.mig{n}", "A100 MIG 1g.5gb", f"MIG-{n}{n}cc-dd") for n in range(2))
DIVIDED = (SPLIT, PART0, PART1, B)


def bare(gpu: Gpu) -> str:
    """Its UUID as torch gives it."""
    return gpu.uuid.partition("-")[2]


@given(st.permutations(CARDS), st.integers(0, 3))
def test_uuids_tell_the_cards_whatever_the_order(order: list[Gpu], count: int) -> None:
    seen = order[:count]
    assert visible_gpus(CARDS, [bare(gpu) for gpu in seen], {}) == tuple(seen)
    # They are believed before the variable.
    text = {"CUDA_VISIBLE_DEVICES": "0"}
    assert visible_gpus(CARDS, [bare(gpu).upper() for gpu in seen], text) == tuple(seen)


def test_a_gpu_that_is_not_sampled_is_unknown() -> None:
    assert visible_gpus(CARDS, [bare(B), "99-99"], {}) == (B, None)
    assert visible_gpus([Gpu("gpu0", "MI300X")], [""], {}) == (None,)


BY_BUS = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("GPU-22aa-bb2,GPU-00aa-bb0", (C, A)),
        ("GPU-2, GPU-0", (C, A)),
        ("2,0", (C, A)),
        ("1,GPU-0", (B, A)),
        ("", ()),
        ("-1", ()),
        ("0,-1,1", (A,)),
        ("0,7,1", (A,)),
        ("0,none,1", (A,)),
        ("GPU-9,GPU-0", ()),
        # Of more than one.
        ("GPU-", ()),
        ("1,1", ()),
        ("1,GPU-1", ()),
    ],
)
def test_the_variable_is_read_as_cuda_does(text: str, seen: tuple[Gpu, ...]) -> None:
    assert visible_gpus(CARDS, None, {"CUDA_VISIBLE_DEVICES": text, **BY_BUS}) == seen


def test_numbers_tell_nothing_where_cuda_sorts_by_speed() -> None:
    assert visible_gpus(CARDS, None, {"CUDA_VISIBLE_DEVICES": "0,GPU-1"}) == (None, B)
    assert visible_gpus(CARDS, None, {}) is None
    assert visible_gpus(CARDS, None, BY_BUS) == CARDS
    assert visible_gpus([B], None, {}) == (B,)
    assert visible_gpus([B], None, {"CUDA_VISIBLE_DEVICES": "0"}) == (B,)


def test_a_mig_device_is_told_by_its_own_uuid() -> None:
    assert visible_gpus(DIVIDED, [bare(PART1)], {}) == (PART1,)
    assert visible_gpus(DIVIDED, None, {"CUDA_VISIBLE_DEVICES": "MIG-11"}) == (PART1,)


def test_a_mig_device_under_the_uuid_of_its_card_needs_the_variable() -> None:
    named = {"CUDA_VISIBLE_DEVICES": "MIG-11cc"}
    assert visible_gpus(DIVIDED, [bare(SPLIT)], named) == (PART1,)
    assert visible_gpus(DIVIDED, [bare(SPLIT)], {}) == (None,)
    assert visible_gpus([SPLIT, PART0], [bare(SPLIT)], {}) == (PART0,)


def test_numbers_tell_nothing_where_a_card_is_divided() -> None:
    assert visible_gpus(DIVIDED, None, {"CUDA_VISIBLE_DEVICES": "0", **BY_BUS}) == (None,)
    assert visible_gpus(DIVIDED, None, BY_BUS) is None


@given(st.text(alphabet="GPUMIG-0123abc, ", max_size=30))
def test_no_text_raises_or_names_a_gpu_twice(text: str) -> None:
    seen = visible_gpus(CARDS, None, {"CUDA_VISIBLE_DEVICES": text, **BY_BUS})
    assert seen is not None
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(CARDS)


def test_prefixes_of_gpus_are_in_the_order_of_their_numbers() -> None:
    names = ["gpu10.power", "gpu2.mig1.power", "gpu2.power", "gpu2.mig0.power", "cpu.cores"]
    assert gpu_prefixes([*names, "gpus.power", "gpu3"]) == [
        "gpu2",
        "gpu2.mig0",
        "gpu2.mig1",
        "gpu10",
    ]
    assert [gpu_name(prefix) for prefix in ("gpu10", "gpu2.mig1")] == ["GPU 10", "GPU2 MIG1"]
