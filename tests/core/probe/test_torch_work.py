"""What is measured with torch, with one whose clock is played, and with the real one."""

import sys
from typing import Any

import msgspec
import pytest

from perftui.probe import torch_work
from perftui.probe.ceilings import Ceiling
from perftui.probe.probe import Line, Worked, summed_up, work
from tests.core.probe.played_torch import CARD, COPY, HALF, MEMORY, PRODUCTS, PlayedTorch


def worked(torch: PlayedTorch, monkeypatch: pytest.MonkeyPatch) -> Worked:
    monkeypatch.setattr(torch_work, "import_module", lambda _: torch)
    monkeypatch.setattr(torch_work, "perf_counter", torch.perf_counter)
    told: list[dict[str, Any]] = []
    torch_work.main(4.0, told.append)
    assert told[-1] == {"done": True}
    return summed_up(msgspec.convert(told, list[Line], strict=False))


def values(found: Worked) -> dict[str, float]:
    return {rate.name.value: rate.value for rate in found.rates}


def test_rates_of_a_card_are_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = PlayedTorch()
    found = worked(torch, monkeypatch)
    assert (found.gpu, found.torch) == (CARD, "2.9.0+played")
    assert values(found) == pytest.approx(
        {
            "host to device, pinned": COPY,
            "host to device, pageable": COPY,
            "device to host, pinned": COPY,
            "device to host, pageable": COPY,
            "device memory": MEMORY,
            "matrix, float32": PRODUCTS["float32", "highest"],
            "matrix, TF32": PRODUCTS["float32", "high"],
            "matrix, bfloat16": PRODUCTS["bfloat16", "highest"],
        }
    )
    assert {rate.unit for rate in found.rates} == {"B/s", "FLOP/s"}
    assert torch.pinned == 2
    by_name = {rate.name: rate.how for rate in found.rates}
    assert by_name[Ceiling.TF32] == "products of 8192 x 8192"
    assert by_name[Ceiling.TO_DEVICE_PINNED] == "copies of 128 MiB"


def test_an_older_card_has_no_tf32_and_float16_in_place_of_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = PlayedTorch(capability=(7, 5))
    found = values(worked(torch, monkeypatch))
    assert found["matrix, float16"] == pytest.approx(HALF)
    assert not {"matrix, TF32", "matrix, bfloat16"} & set(found)
    assert ("float32", "high") not in torch.products


def test_it_takes_the_time_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = PlayedTorch()
    worked(torch, monkeypatch)
    assert 2.5 < torch.clock - 100 < 6


def test_a_full_card_gets_smaller_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    found = worked(PlayedTorch(free=160 << 20), monkeypatch)
    assert {rate.how for rate in found.rates if "device," in rate.name.value} == {
        "copies of 10 MiB"
    }


def test_what_cannot_be_measured_is_told_and_the_rest_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoRoom(PlayedTorch):
        def randn(self, *_: int, **__: str) -> Any:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB\nmore")

    found = worked(NoRoom(), monkeypatch)
    assert [one.reason for one in found.not_measured] == [
        "CUDA out of memory. Tried to allocate 2 GiB"
    ] * 3
    assert len(found.rates) == 5


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_processor_is_really_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    # Also where there is a card.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    told: list[str] = []
    found = work(sys.executable, 0.3, told.append)
    assert found.gpu is None
    assert found.not_measured == ()
    assert sorted(told) == sorted(rate.name.value for rate in found.rates)
    rates = {rate.name: rate for rate in found.rates}
    assert set(rates) == {Ceiling.CPU_MEMORY, Ceiling.CPU_FLOAT32, Ceiling.CPU_BFLOAT16}
    # Between a slow laptop and the fastest host there is.
    assert 1e8 < rates[Ceiling.CPU_MEMORY].value < 1e13
    assert 1e7 < rates[Ceiling.CPU_FLOAT32].value < 1e15
    assert all(0 < rate.low <= rate.value and rate.repeats >= 3 for rate in found.rates)
