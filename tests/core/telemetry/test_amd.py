"""Cards of AMD, and what is said of those of other vendors."""

from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.telemetry.gpu.find import AMD_FIELDS, Gpus, find_gpus, other_vendors
from perftui.telemetry.gpu.names import METRICS
from tests.core.telemetry.fake_nvml import Driver, nvml_of

pytestmark = pytest.mark.usefixtures("quick")


class AmdSmiException(Exception):  # noqa: N818 - as the library calls it
    pass


AmdSmiTemperatureType = IntEnum("AmdSmiTemperatureType", {"EDGE": 0, "JUNCTION": 1, "VRAM": 2})
AmdSmiTemperatureMetric = IntEnum("AmdSmiTemperatureMetric", {"CURRENT": 0})
AmdSmiClkType = IntEnum("AmdSmiClkType", {"GFX": 0, "MEM": 4})


MI300X: dict[str, Any] = {
    "asic_info": {"market_name": "AMD Instinct MI300X"},
    "gpu_activity": {"gfx_activity": 91, "umc_activity": 40, "mm_activity": "N/A"},
    "gpu_vram_usage": {"vram_used": 10_240, "vram_total": 196_608},
    "power_info": {"current_socket_power": 612, "average_socket_power": "N/A"},
    "temp": {1: 67, 2: 54},
    "clock": {0: {"clk": 2087, "max_clk": 2100}, 4: {"clk": 1300, "max_clk": 1300}},
}


def fake_amdsmi(*cards: dict[str, Any], init: str = "") -> Any:
    """AMD SMI of a machine with ``cards``; ``init`` is what it refuses to begin with."""

    def begin() -> None:
        if init:
            raise AmdSmiException(init)

    def answer(card: dict[str, Any], name: str, *path: int) -> Any:
        found = card.get(name)
        for one in path:
            found = (found or {}).get(one)
        if found is None:
            raise AmdSmiException("2: not supported")
        return found

    return SimpleNamespace(
        AmdSmiException=AmdSmiException,
        AmdSmiTemperatureType=AmdSmiTemperatureType,
        AmdSmiTemperatureMetric=AmdSmiTemperatureMetric,
        AmdSmiClkType=AmdSmiClkType,
        amdsmi_init=begin,
        amdsmi_get_processor_handles=lambda: list(cards),
        amdsmi_get_gpu_asic_info=lambda card: answer(card, "asic_info"),
        amdsmi_get_gpu_activity=lambda card: answer(card, "gpu_activity"),
        amdsmi_get_gpu_vram_usage=lambda card: answer(card, "gpu_vram_usage"),
        amdsmi_get_power_info=lambda card: answer(card, "power_info"),
        amdsmi_get_temp_metric=lambda card, kind, _metric: answer(card, "temp", kind),
        amdsmi_get_clock_info=lambda card, kind: answer(card, "clock", kind),
    )


def found_with(amdsmi: Any, pci: Path = Path("nowhere")) -> Gpus:
    """What is found where NVML finds nothing."""
    return find_gpus(frozenset, nvml_of(Driver()), amdsmi, pci)


def row_of(found: Gpus) -> dict[str, float | None]:
    return {
        column.name: value
        for source in found.sources
        for column, value in zip(source.columns, source.sample(1.0), strict=True)
    }


def test_every_metric_of_a_card_is_what_the_library_says() -> None:
    found = found_with(fake_amdsmi(MI300X))
    assert (found.names, found.no_gpu, found.missing) == (("AMD Instinct MI300X",), None, {})
    assert row_of(found) == {
        "gpu0.utilization": 91,
        "gpu0.memory_utilization": 40,
        "gpu0.memory_used": 10 << 30,
        "gpu0.memory_total": 192 << 30,
        "gpu0.power": 612,
        "gpu0.temperature": 67,
        "gpu0.memory_temperature": 54,
        "gpu0.clock_sm": 2087,
        "gpu0.clock_sm_max": 2100,
        "gpu0.clock_memory": 1300,
        "gpu0.clock_memory_max": 1300,
    }
    assert {field.name for field in AMD_FIELDS} <= set(METRICS)


def test_older_names_of_values_are_known() -> None:
    older = {
        **MI300X,
        "power_info": {"average_socket_power": 250},
        "clock": {0: {"cur_clk": 1700, "max_clk": 1800}},
    }
    row = row_of(found_with(fake_amdsmi(older)))
    assert (row["gpu0.power"], row["gpu0.clock_sm"]) == (250, 1700)


def test_what_a_card_does_not_know_is_left_out_and_said() -> None:
    card = {**MI300X, "power_info": {"socket_power": "N/A"}, "temp": {1: 67}}
    found = found_with(fake_amdsmi(MI300X, card))
    assert found.missing == {
        "gpu1.power": "AMD SMI has no value",
        "gpu1.memory_temperature": "AMD SMI says: 2: not supported",
    }
    row = row_of(found)
    assert "gpu1.power" not in row
    assert row["gpu0.power"] == 612


def test_a_library_that_lacks_a_function_leaves_its_metrics_out() -> None:
    library = fake_amdsmi(MI300X)
    del library.amdsmi_get_power_info
    found = found_with(library)
    assert found.missing["gpu0.power"].startswith("this amdsmi is older")
    assert "gpu0.power" not in row_of(found)


def test_a_value_that_fails_later_is_missing() -> None:
    card = dict(MI300X)
    found = found_with(fake_amdsmi(card))
    del card["power_info"]
    row = row_of(found)
    assert (row["gpu0.power"], row["gpu0.utilization"]) == (None, 91)


def bus(tmp_path: Path, *devices: tuple[str, str]) -> Path:
    """What Linux shows of PCI devices: vendor and class of each."""
    for number, (vendor, kind) in enumerate(devices):
        one = tmp_path / f"0000:{number:02x}:00.0"
        one.mkdir()
        (one / "vendor").write_text(f"{vendor}\n")
        (one / "class").write_text(f"{kind}\n")
    (tmp_path / "odd").mkdir()
    return tmp_path


def test_vendors_are_those_of_display_cards(tmp_path: Path) -> None:
    network = ("0x8086", "0x020000")
    assert other_vendors(bus(tmp_path, network, ("0x1002", "0x120000"))) == {"AMD"}
    assert other_vendors(tmp_path / "missing") == frozenset()


@pytest.mark.parametrize(
    ("devices", "library", "reason"),
    [
        ((), None, "NVML finds no GPU"),
        ((("0x8086", "0x030000"),), None, "NVML finds no GPU; Intel GPUs are not sampled"),
        (
            (("0x1002", "0x038000"),),
            fake_amdsmi(MI300X, init="the driver is not loaded"),
            "NVML finds no GPU; AMD GPU: AMD SMI says: the driver is not loaded",
        ),
        (
            (("0x1002", "0x038000"),),
            fake_amdsmi(),
            "NVML finds no GPU; AMD GPU: AMD SMI finds no GPU",
        ),
    ],
)
def test_why_no_gpu_is_sampled(
    tmp_path: Path,
    devices: tuple[tuple[str, str], ...],
    library: Any,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "amdsmi", None)
    found = found_with(library, bus(tmp_path, *devices))
    assert (found.no_gpu, found.sources) == (reason, ())


def test_an_amd_card_without_its_library_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "amdsmi", None)
    found = found_with(None, bus(tmp_path, ("0x1002", "0x030000")))
    assert found.no_gpu is not None
    assert "AMD GPU: amdsmi cannot be imported" in found.no_gpu


def test_apple_gpus_are_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    assert other_vendors(Path("nowhere")) == {"Apple"}
