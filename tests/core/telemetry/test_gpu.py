"""GPU telemetry against a library that stands for NVML."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.telemetry.gpu import (
    FIELDS,
    GpuMemorySource,
    GpuSource,
    NoGpuError,
    PcieSource,
    card_names,
    open_nvml,
)
from perftui.telemetry.machine import look_around


class NVMLError(Exception):
    pass


def _refuse(*_: Any) -> Any:
    raise NVMLError("Not Supported")


def fake_nvml(cards: int = 1, **changes: Callable[..., Any] | None) -> Any:
    """NVML of a machine with ``cards`` cards; ``changes`` replace functions, None removes one."""
    functions: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: cards,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda card: f"Card {card}",
        "nvmlDeviceGetUtilizationRates": lambda card: SimpleNamespace(gpu=80 + card, memory=30),
        "nvmlDeviceGetMemoryInfo": lambda _card: SimpleNamespace(used=5 << 30, total=80 << 30),
        "nvmlDeviceGetPowerUsage": lambda _card: 345_600,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _card: 700_000,
        "nvmlDeviceGetTotalEnergyConsumption": lambda _card: 12_345_678,
        "nvmlDeviceGetTemperature": lambda _card, sensor: 61 + sensor,
        "nvmlDeviceGetClockInfo": lambda _card, clock: {1: 1755, 2: 2619}[clock],
        "nvmlDeviceGetMaxClockInfo": lambda _card, _clock: 1980,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda _card: 0x4,
        "nvmlDeviceGetCurrPcieLinkGeneration": lambda _card: 5,
        "nvmlDeviceGetCurrPcieLinkWidth": lambda _card: 16,
        "nvmlDeviceGetMaxPcieLinkGeneration": lambda _card: 5,
        "nvmlDeviceGetMaxPcieLinkWidth": lambda _card: 16,
        "nvmlDeviceGetComputeRunningProcesses": lambda _card: [
            SimpleNamespace(pid=11, usedGpuMemory=3 << 30),
            SimpleNamespace(pid=12, usedGpuMemory=1 << 30),
            SimpleNamespace(pid=99, usedGpuMemory=7 << 30),
            SimpleNamespace(pid=13, usedGpuMemory=None),
        ],
        "nvmlDeviceGetPcieThroughput": lambda _card, counter: 1000 * (counter + 1),
        **changes,
    }
    constants = {
        "NVML_TEMPERATURE_GPU": 0,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_PCIE_UTIL_TX_BYTES": 0,
        "NVML_PCIE_UTIL_RX_BYTES": 1,
    }
    kept = {name: function for name, function in functions.items() if function is not None}
    return SimpleNamespace(NVMLError=NVMLError, **constants, **kept)


def _sampled(source: Any) -> dict[str, float | None]:
    names = [column.name for column in source.columns]
    return dict(zip(names, source.sample(0.0), strict=True))


def test_every_field_has_its_unit() -> None:
    values = _sampled(GpuSource(fake_nvml()))
    assert values == {
        "gpu0.utilization": 80,
        "gpu0.memory_utilization": 30,
        "gpu0.memory_used": 5 << 30,
        "gpu0.memory_total": 80 << 30,
        "gpu0.power": 345.6,
        "gpu0.power_limit": 700.0,
        "gpu0.energy": 12345.678,
        "gpu0.temperature": 61,
        "gpu0.clock_sm": 1755,
        "gpu0.clock_sm_max": 1980,
        "gpu0.clock_memory": 2619,
        "gpu0.throttle_reasons": 4.0,
        "gpu0.pcie_generation": 5,
        "gpu0.pcie_width": 16,
        "gpu0.pcie_generation_max": 5,
        "gpu0.pcie_width_max": 16,
    }


def test_each_card_has_its_columns() -> None:
    source = GpuSource(fake_nvml(cards=3))
    values = _sampled(source)
    assert len(source.columns) == 3 * len(FIELDS)
    assert [values[f"gpu{n}.utilization"] for n in range(3)] == [80, 81, 82]


@pytest.mark.parametrize("function", [_refuse, None])
def test_field_that_a_card_does_not_answer_is_left_out(function: Any) -> None:
    nvml = fake_nvml(nvmlDeviceGetPowerUsage=function, nvmlDeviceGetTotalEnergyConsumption=function)
    names = {column.name for column in GpuSource(nvml).columns}
    assert len(names) == len(FIELDS) - 2
    assert not names & {"gpu0.power", "gpu0.energy"}


def test_older_name_of_the_throttle_reasons_is_found() -> None:
    nvml = fake_nvml(
        nvmlDeviceGetCurrentClocksEventReasons=None,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _card: 8,
    )
    assert _sampled(GpuSource(nvml))["gpu0.throttle_reasons"] == 8


def test_field_that_fails_later_is_missing_not_zero() -> None:
    nvml = fake_nvml()
    source = GpuSource(nvml)
    nvml.nvmlDeviceGetPowerUsage = _refuse
    assert _sampled(source)["gpu0.power"] is None
    assert _sampled(source)["gpu0.utilization"] == 80


def test_memory_of_our_processes_only() -> None:
    mine = {11, 12, 13}
    source = GpuMemorySource(fake_nvml(), lambda: frozenset(mine))
    assert _sampled(source) == {"gpu0.process_memory": 4 << 30}
    mine.clear()
    assert _sampled(source) == {"gpu0.process_memory": None}
    refused = fake_nvml(nvmlDeviceGetComputeRunningProcesses=_refuse)
    assert GpuMemorySource(refused, frozenset).columns == ()


def test_card_that_never_answers_again_holds_up_nothing_and_is_asked_once() -> None:
    nvml = fake_nvml()
    asked: list[int] = []
    is_asked, never = threading.Event(), threading.Event()

    def hang(_card: int, counter: int) -> int:
        asked.append(counter)
        is_asked.set()
        never.wait()
        return 0

    source = PcieSource(nvml)
    nvml.nvmlDeviceGetPcieThroughput = hang
    assert source.sample(0.0) == [None, None]
    assert is_asked.wait(20)
    assert [source.sample(now) for now in (10.0, 20.0)] == [[None, None]] * 2
    assert asked == [1]
    never.set()


def test_pcie_traffic_is_read_beside_the_loop() -> None:
    source = PcieSource(fake_nvml())
    assert _sampled(source) == {"gpu0.pcie_receive": None, "gpu0.pcie_transmit": None}
    until = time.monotonic() + 10
    while None in _sampled(source).values():
        assert time.monotonic() < until
        time.sleep(0.005)
    assert _sampled(source) == {"gpu0.pcie_receive": 2_048_000, "gpu0.pcie_transmit": 1_024_000}


def test_names_of_old_bindings_are_bytes() -> None:
    assert card_names(fake_nvml(2)) == ("Card 0", "Card 1")
    assert card_names(fake_nvml(nvmlDeviceGetName=lambda _card: b"Card B")) == ("Card B",)
    assert card_names(fake_nvml(nvmlDeviceGetName=_refuse)) == ("GPU",)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"nvmlInit": _refuse}, "NVML says: Not Supported"), ({"cards": 0}, "NVML finds no GPU")],
)
def test_machine_without_a_gpu_says_why(changes: dict[str, Any], reason: str) -> None:
    nvml = fake_nvml(**changes)
    with pytest.raises(NoGpuError, match=reason):
        open_nvml(nvml)
    machine = look_around(1, nvml)
    assert machine.no_gpu == reason
    assert not any(c.name.startswith("gpu") for s in machine.sources for c in s.columns)


def test_machine_with_gpus() -> None:
    machine = look_around(1, fake_nvml(2))
    assert machine.gpus == ("Card 0", "Card 1")
    assert machine.no_gpu is None
    names = [column.name for source in machine.sources for column in source.columns]
    assert len(names) == len(set(names))
    assert "gpu1.process_memory" in names
