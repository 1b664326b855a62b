"""Every metric of a card against a driver that answers as real ones do, below the real bindings."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perftui.recorder.machine_sampling import look_around
from perftui.run.journal import Column
from perftui.telemetry.gpu import find, nvml_metrics
from perftui.telemetry.gpu.find import IN_MIG_MODE, Gpus, find_gpus, gpu_columns
from perftui.telemetry.gpu.names import METRICS, Gpu
from perftui.telemetry.gpu.nvml_metrics import FIELDS, MEMBERS, TRAFFIC
from perftui.telemetry.source import Sampler
from tests.core.telemetry import fake_nvml
from tests.core.telemetry.conftest import DriverOf
from tests.core.telemetry.fake_nvml import (
    ALL_LINKS,
    GPM,
    H100,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    UNKNOWN,
    UNKNOWN_MEMORY,
    Card,
    Driver,
    mig_device,
    nvml_of,
    older_card,
)

pytestmark = pytest.mark.usefixtures("quick")

MINE = frozenset({11, 12})


@dataclass
class Watch:
    """The GPUs of a driver, sampled as a run is."""

    found: Gpus
    failures: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sampler = Sampler(
            self.found.sources, lambda name, error: self.failures.update({name: str(error)})
        )
        self.columns: dict[str, Column] = {c.name: c for c in self.sampler.columns}

    def sample(self) -> dict[str, Any]:
        """One row."""
        return dict(zip(self.columns, self.sampler.sample(), strict=True))

    def all_of(self, names: Iterable[str]) -> dict[str, Any]:
        """Rows until each of ``names`` has a value: rates need two, and others are read slowly."""
        until = time.monotonic() + 20
        while True:
            row = self.sample()
            if all(row[name] is not None for name in names):
                return row
            assert time.monotonic() < until, row
            time.sleep(0.002)


def watch(driver: Driver, pids: frozenset[int] = MINE, without: Iterable[str] = ()) -> Watch:
    return Watch(find_gpus(lambda: pids, nvml_of(driver, without), pci=Path("nowhere")))


def test_every_metric_of_a_card_is_what_the_driver_says(driver_of: DriverOf) -> None:
    card = Card(compute={11: 3 << 30, 12: 1 << 30, 99: 7 << 30}, graphics={5: 1 << 20})
    gpus = watch(driver_of(card))
    assert gpus.found.missing == {}
    gpus.all_of(["gpu0.pcie_receive", "gpu0.sm_activity"])
    card.field_values[138, ALL_LINKS] = ("ullVal", 3, 3_000_000)
    card.field_values[139, ALL_LINKS] = ("ullVal", 3, 9_000_000)
    row = gpus.sample()
    traffic = [row.pop(f"gpu0.nvlink_{way}") for way in ("receive", "transmit")]
    assert traffic[0] == pytest.approx(2 * traffic[1])
    del row["time"]
    assert row == {
        "gpu0.utilization": 83,
        "gpu0.memory_utilization": 31,
        "gpu0.memory_used": 5 << 30,
        "gpu0.memory_total": 80 << 30,
        "gpu0.power": 345.6,
        "gpu0.power_limit": 700.0,
        "gpu0.energy": 12_345_678.0,
        "gpu0.temperature": 61,
        "gpu0.memory_temperature": 73,
        "gpu0.fan": 42,
        "gpu0.clock_sm": 1755,
        "gpu0.clock_sm_max": 1980,
        "gpu0.clock_memory": 2600,
        "gpu0.clock_memory_max": 2619,
        "gpu0.throttle_reasons": 0x24,
        "gpu0.ecc_corrected": 7,
        "gpu0.ecc_uncorrected": 1,
        "gpu0.pcie_generation": 4,
        "gpu0.pcie_width": 8,
        "gpu0.pcie_generation_max": 5,
        "gpu0.pcie_width_max": 16,
        "gpu0.pcie_receive": 2_048_000,
        "gpu0.pcie_transmit": 1_024_000,
        "gpu0.processes": 4,
        "gpu0.process_memory": 4 << 30,
        "gpu0.sm_activity": 64.25,
        "gpu0.sm_occupancy": 33.5,
        "gpu0.tensor_activity": 21.75,
        "gpu0.dram_activity": 48.5,
    }


def test_every_metric_has_a_unit_a_label_a_source_and_a_meaning(driver_of: DriverOf) -> None:
    gpus = watch(driver_of(Card()))
    columns = gpu_columns("gpu0")
    assert [c.name for c in columns] == [f"gpu0.{name}" for name in METRICS]
    assert {c for name, c in gpus.columns.items() if name != "time"} == set(columns)
    assert all(c.label and c.source and c.meaning.endswith(".") for c in columns)
    unitless = {c.name for c in columns if not c.unit}
    assert unitless == {
        "gpu0.throttle_reasons",
        *(f"gpu0.pcie_{what}{end}" for what in ("generation", "width") for end in ("", "_max")),
    }
    assert gpus.columns["gpu0.power"].source == "nvmlDeviceGetPowerUsage"


def test_nvlink_traffic_is_the_change_of_bytes_over_all_links(driver_of: DriverOf) -> None:
    card = Card()
    (source,) = [s for s in watch(driver_of(card)).found.sources if "counters" in s.name]
    names = [column.name for column in source.columns]
    first = dict(zip(names, source.sample(10.0), strict=True))
    assert (first["gpu0.nvlink_receive"], first["gpu0.nvlink_transmit"]) == (None, None)
    card.field_values[138, ALL_LINKS] = ("ullVal", 3, 1_000_000 + 500)
    card.field_values[139, ALL_LINKS] = ("ullVal", 3, 5_000_000 + 2000)
    second = dict(zip(names, source.sample(12.0), strict=True))
    assert second["gpu0.nvlink_transmit"] == 500 * 1024 / 2
    assert second["gpu0.nvlink_receive"] == 2000 * 1024 / 2
    # The driver was loaded anew.
    card.field_values[138, ALL_LINKS] = ("ullVal", 3, 5)
    third = dict(zip(names, source.sample(13.0), strict=True))
    assert third["gpu0.nvlink_transmit"] is None


@pytest.mark.parametrize(("kind", "member"), enumerate(MEMBERS))
def test_a_field_value_is_read_by_its_type(driver_of: DriverOf, kind: int, member: str) -> None:
    card = Card()
    card.field_values[82, 0] = (member, kind, 55)
    assert watch(driver_of(card)).sample()["gpu0.memory_temperature"] == 55


def test_nvlink_traffic_is_that_of_gpm_where_the_counters_are_refused(driver_of: DriverOf) -> None:
    card = Card()
    for number in (138, 139):
        del card.field_values[number, ALL_LINKS]
    gpus = watch(driver_of(card))
    row = gpus.sample()
    assert row["gpu0.nvlink_receive"] == 1000 * 2**20
    assert row["gpu0.nvlink_transmit"] == 250 * 2**20
    assert "gpu0.nvlink_receive" not in gpus.found.missing


def test_an_older_card_leaves_out_what_it_does_not_have_and_says_why(driver_of: DriverOf) -> None:
    gpus = watch(driver_of(older_card()))
    refused = "NVML says: Not Supported"
    assert gpus.found.missing == {
        "gpu0.ecc_corrected": refused,
        "gpu0.ecc_uncorrected": refused,
        "gpu0.energy": refused,
        "gpu0.memory_temperature": refused,
        "gpu0.nvlink_receive": "the card has no NVLink",
        "gpu0.nvlink_transmit": "the card has no NVLink",
        **{
            f"gpu0.{name}": "the card has no performance counters for NVML"
            for name in ("sm_activity", "sm_occupancy", "tensor_activity", "dram_activity")
        },
    }
    assert not gpus.found.missing.keys() & gpus.columns.keys()
    assert gpus.sample()["gpu0.utilization"] == 83


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, RESET_REQUIRED, UNKNOWN])
@pytest.mark.parametrize("one", FIELDS, ids=lambda one: one.name)
def test_one_call_that_fails_costs_its_own_columns(
    driver_of: DriverOf, one: Any, code: int
) -> None:
    card = Card()
    driver = driver_of(card)
    gpus = watch(driver)
    name = f"DeviceGet{one.function}"
    alike = {f"gpu0.{other.name}" for other in FIELDS if other.function == one.function}
    card.errors[name] = code
    assert {n for n, v in gpus.sample().items() if v is None and _is_level(n)} == alike
    fresh = watch(driver)
    assert alike <= fresh.found.missing.keys()
    assert not alike & fresh.columns.keys()
    assert fresh.sample().keys() == gpus.columns.keys() - alike
    card.errors.clear()
    assert None not in [v for n, v in gpus.sample().items() if _is_level(n)]
    assert gpus.failures == {}


def _is_level(name: str) -> bool:
    """Whether it has a value from the first sample on, of a card that nobody uses."""
    others = ("nvlink", "pcie_receive", "pcie_transmit", "process_memory")
    return not any(word in name for word in others)


def test_a_driver_older_than_a_function_leaves_its_metrics_out(driver_of: DriverOf) -> None:
    lacks = ("nvmlDeviceGetFieldValues", "nvmlDeviceGetFanSpeed", "nvmlGpmQueryDeviceSupport")
    gpus = watch(driver_of(Card(), lacks=lacks))
    reasons = gpus.found.missing
    assert reasons["gpu0.fan"] == "NVML says: Function Not Found"
    assert reasons["gpu0.memory_temperature"] == "NVML says: Function Not Found"
    assert reasons["gpu0.sm_activity"] == "NVML says: Function Not Found"
    assert gpus.sample()["gpu0.power"] == 345.6


def test_bindings_older_than_a_function_leave_its_metrics_out(driver_of: DriverOf) -> None:
    without = (
        "nvmlDeviceGetMigMode",
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetMPSComputeRunningProcesses",
        "NVML_FI_DEV_MEMORY_TEMP",
        "NVML_GPM_METRIC_DRAM_BW_UTIL",
    )
    gpus = watch(driver_of(Card(compute={11: 1 << 30})), without=without)
    assert gpus.found.missing == {
        "gpu0.memory_temperature": "the NVML bindings lack NVML_FI_DEV_MEMORY_TEMP",
        "gpu0.dram_activity": "the NVML bindings lack NVML_GPM_METRIC_DRAM_BW_UTIL",
        **{
            f"gpu0.{name}": "the NVML bindings lack nvmlGpmQueryDeviceSupport"
            for name in ("sm_activity", "sm_occupancy", "tensor_activity")
        },
    }
    assert gpus.sample()["gpu0.process_memory"] == 1 << 30


def test_processes_are_counted_once_whatever_lists_they_are_on(driver_of: DriverOf) -> None:
    card = Card(
        compute={11: 3 << 30, 99: 1 << 30},
        graphics={11: 3 << 30, 5: 1 << 20},
        mps={12: 2 << 30, 99: UNKNOWN_MEMORY},
    )
    row = watch(driver_of(card)).sample()
    assert (row["gpu0.processes"], row["gpu0.process_memory"]) == (4, 5 << 30)


def test_memory_of_the_run_is_unknown_where_no_process_of_it_is_listed(driver_of: DriverOf) -> None:
    card = Card(compute={99: 1 << 30, 11: UNKNOWN_MEMORY})
    row = watch(driver_of(card)).sample()
    assert (row["gpu0.processes"], row["gpu0.process_memory"]) == (2, None)
    row = watch(driver_of(Card())).sample()
    assert (row["gpu0.processes"], row["gpu0.process_memory"]) == (0, None)


def test_process_lists_that_are_refused_are_left_out(driver_of: DriverOf) -> None:
    card = Card(errors={"DeviceGetComputeRunningProcesses": NO_PERMISSION})
    gpus = watch(driver_of(card))
    for name in ("gpu0.processes", "gpu0.process_memory"):
        assert gpus.found.missing[name] == "NVML says: Insufficient Permissions"
        assert name not in gpus.columns


def test_each_of_eight_cards_has_its_own_values(driver_of: DriverOf) -> None:
    cards = [
        Card(values={**H100, "PowerUsage": 1000 * number}, gpm={**GPM, 2: 10.0 + number})
        for number in range(8)
    ]
    gpus = watch(driver_of(*cards))
    assert [gpu.prefix for gpu in gpus.found.gpus] == [f"gpu{n}" for n in range(8)]
    assert len({gpu.uuid for gpu in gpus.found.gpus}) == 8
    assert len(gpus.columns) == 8 * len(METRICS) + 1
    row = gpus.sample()
    assert [row[f"gpu{n}.power"] for n in range(8)] == list(range(8))
    assert [row[f"gpu{n}.sm_activity"] for n in range(8)] == [10.0 + n for n in range(8)]


def test_a_card_that_is_unplugged_costs_its_columns_only(driver_of: DriverOf) -> None:
    cards = [Card(), Card()]
    gpus = watch(driver_of(*cards))
    whole = gpus.all_of(["gpu0.pcie_receive", "gpu1.pcie_receive", "gpu1.nvlink_receive"])
    cards[1].is_lost = True
    row = gpus.sample()
    gone = {name for name, value in row.items() if value is None and whole[name] is not None}
    of_card = {name for name in row if name.startswith("gpu1.")}
    # PCIe is read every other second only, and no process uses the card.
    seldom = {f"gpu1.{name}" for name in ("pcie_receive", "pcie_transmit", "process_memory")}
    assert gone == of_card - seldom
    assert gpus.failures == {
        "gpu1": "NVML says: GPU is lost",
        "gpu1 counters": "NVML says: GPU is lost",
    }
    cards[1].is_lost = False
    assert gpus.sample()["gpu1.power"] is None
    assert gpus.sample()["gpu0.power"] == 345.6


def test_a_card_that_is_lost_at_the_start_or_of_somebody_else_is_named(driver_of: DriverOf) -> None:
    """A container is given some of the machine's cards."""
    hidden = Card(errors={"DeviceGetHandleByIndex": NO_PERMISSION})
    gpus = watch(driver_of(hidden, Card(is_lost=True), Card()))
    assert gpus.found.missing == {
        "gpu0": "NVML says: Insufficient Permissions",
        "gpu1": "NVML says: GPU is lost",
    }
    assert [gpu.prefix for gpu in gpus.found.gpus] == ["gpu2"]
    assert gpus.sample()["gpu2.power"] == 345.6
    assert watch(driver_of(Card(is_lost=True))).found.no_gpu == "NVML says: GPU is lost"


def test_a_call_that_hangs_costs_the_columns_of_its_card(
    driver_of: DriverOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = [Card(), Card()]
    driver = driver_of(*cards)
    gpus = watch(driver)
    assert gpus.sample()["gpu1.power"] == 345.6
    for source in gpus.found.sources:
        if source.name.startswith("gpu1"):
            monkeypatch.setattr(source, "_patience", 0.02)
    cards[1].hanging = {"DeviceGetPowerUsage", "GpmSampleGet"}
    # Readings of the moment before are still the present ones; then they are too old.
    monkeypatch.setattr("perftui.telemetry.source.STALE_SECONDS", 1e-9)
    asked = driver.asked.count("DeviceGetPowerUsage")
    for _ in range(3):
        row = gpus.sample()
        assert {v for n, v in row.items() if n.startswith("gpu1.") and _is_level(n)} == {None}
        assert row["gpu0.power"] == 345.6
    assert driver.asked.count("DeviceGetPowerUsage") - asked == 3 + 1
    assert gpus.failures == {}


@pytest.mark.slow
def test_a_card_that_hangs_at_the_start_is_named(
    driver_of: DriverOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "ANSWER_SECONDS", 2.0)
    gpus = watch(driver_of(Card(hanging={"DeviceGetName"}), Card()))
    assert gpus.found.missing == {"gpu0": "no answer within 2 s"}
    assert gpus.sample()["gpu1.power"] == 345.6


def test_a_driver_that_hangs_or_breaks_is_no_gpu(
    driver_of: DriverOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "OPEN_SECONDS", 0.01)
    driver = driver_of(Card())
    hangs, breaks = nvml_of(driver), nvml_of(driver)
    hangs.nvmlInit = driver.released.wait
    breaks.nvmlInit = lambda: 1 // 0
    for nvml, why in ((hangs, "no answer within 0.01 s"), (breaks, "ZeroDivisionError: ")):
        reason = find_gpus(frozenset, nvml, pci=Path("nowhere")).no_gpu
        assert str(reason).startswith(f"the GPU driver: {why}")


def test_a_card_that_breaks_is_named(driver_of: DriverOf) -> None:
    nvml = nvml_of(driver_of(Card()))
    nvml.nvmlDeviceGetUtilizationRates = lambda _handle: None
    found = find_gpus(frozenset, nvml)
    assert found.missing["gpu0"].startswith("AttributeError: ")
    assert found.no_gpu == found.missing["gpu0"]


def test_counters_are_asked_no_more_often_than_they_are_renewed(
    driver_of: DriverOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card()
    gpus = watch(driver_of(card))
    monkeypatch.setattr(nvml_metrics, "SHORTEST_SECONDS", 1e9)
    monkeypatch.setattr(fake_nvml, "GPM_SECONDS", 1e9)
    card.gpm[2] = 1.0
    assert gpus.sample()["gpu0.sm_activity"] == 64.25
    assert nvml_metrics.SHORTEST_SECONDS > 0.1


def test_counters_that_fail_once_are_unknown_until_two_samples_are_there(
    driver_of: DriverOf,
) -> None:
    card = Card()
    gpus = watch(driver_of(card))
    time.sleep(0.002)
    card.errors["GpmSampleGet"] = UNKNOWN
    assert gpus.sample()["gpu0.sm_activity"] is None
    card.errors.clear()
    for known in (None, 64.25):
        time.sleep(0.002)
        assert gpus.sample()["gpu0.sm_activity"] == known


def test_one_counter_that_a_card_lacks_is_left_out(driver_of: DriverOf) -> None:
    card = Card()
    del card.gpm[5]
    gpus = watch(driver_of(card))
    assert gpus.found.missing == {"gpu0.tensor_activity": "NVML says: Not Supported"}
    row = gpus.sample()
    assert (row["gpu0.sm_occupancy"], row["gpu0.dram_activity"]) == (33.5, 48.5)
    card.gpm[10] = float("nan")
    time.sleep(0.002)
    assert gpus.sample()["gpu0.dram_activity"] is None


def test_samples_of_counters_are_freed(driver_of: DriverOf) -> None:
    driver = driver_of(Card(), Card(errors={"GpmSampleGet": NO_PERMISSION}))
    gpus = watch(driver)
    gpus.sample()
    assert len(driver.samples) == 2
    assert gpus.found.missing["gpu1.sm_activity"] == "NVML says: Insufficient Permissions"
    gpus.sampler.close()
    assert driver.samples == {}


def test_samples_that_a_call_hangs_on_are_left_alone(driver_of: DriverOf) -> None:
    card = Card()
    driver = driver_of(card)
    gpus = watch(driver)
    gpus.sample()
    for source in gpus.found.sources:
        source._patience = 0.01
    card.hanging = {"GpmSampleGet"}
    time.sleep(0.002)
    gpus.sample()
    gpus.sampler.close()
    assert len(driver.samples) == 2


@pytest.fixture
def divided() -> Card:
    parts = {
        0: mig_device("MIG-aaaa", 3, compute={11: 1 << 30}, gpm={1: 71.0, 2: 30.0, 3: 20.0}),
        2: mig_device("MIG-cccc", 5, "2g.20gb", compute={99: 2 << 30}, gpm={1: 5.0, 10: 4.0}),
    }
    return Card(mig=parts)


def test_a_card_in_mig_mode_is_sampled_by_its_mig_devices(
    driver_of: DriverOf, divided: Card
) -> None:
    gpus = watch(driver_of(divided))
    assert gpus.found.gpus == (
        Gpu("gpu0", "NVIDIA H100 80GB HBM3", "GPU-00000000-0000-0000-0000-000000000000"),
        Gpu("gpu0.mig0", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "MIG-aaaa"),
        Gpu("gpu0.mig2", "NVIDIA H100 80GB HBM3 MIG 2g.20gb", "MIG-cccc"),
    )
    assert gpus.found.names == ("NVIDIA H100 80GB HBM3",)
    row = gpus.sample()
    assert {n: v for n, v in row.items() if ".mig" in n} == {
        "gpu0.mig0.memory_used": 2 << 30,
        "gpu0.mig0.memory_total": 10 << 30,
        "gpu0.mig0.processes": 1,
        "gpu0.mig0.process_memory": 1 << 30,
        "gpu0.mig0.utilization": 71.0,
        "gpu0.mig0.sm_activity": 30.0,
        "gpu0.mig0.sm_occupancy": 20.0,
        "gpu0.mig2.memory_used": 2 << 30,
        "gpu0.mig2.memory_total": 10 << 30,
        "gpu0.mig2.processes": 1,
        "gpu0.mig2.process_memory": None,
        "gpu0.mig2.utilization": 5.0,
        "gpu0.mig2.dram_activity": 4.0,
    }
    assert gpus.columns["gpu0.mig2.utilization"].label == "GPU busy, MIG 2g.20gb"
    assert "GPU instance" in gpus.columns["gpu0.mig2.utilization"].source


def test_a_card_in_mig_mode_has_no_number_for_its_parts(driver_of: DriverOf, divided: Card) -> None:
    """The driver would give the sum to whoever may see it."""
    gpus = watch(driver_of(divided))
    hidden = {
        *("utilization", "memory_utilization", "memory_used", "memory_total"),
        *("processes", "process_memory"),
        *("sm_activity", "sm_occupancy", "tensor_activity", "dram_activity"),
    }
    assert {n for n, why in gpus.found.missing.items() if why == IN_MIG_MODE} == {
        f"gpu0.{name}" for name in hidden
    }
    assert not gpus.found.missing.keys() & gpus.columns.keys()
    row = gpus.sample()
    assert (row["gpu0.power"], row["gpu0.temperature"]) == (345.6, 61)


def test_mig_devices_before_hopper_say_why_their_use_is_unknown(driver_of: DriverOf) -> None:
    part = mig_device("MIG-aaaa", 3, gpm={})
    a100 = Card(name="NVIDIA A100", mig={0: part})
    gpus = watch(driver_of(a100, lacks=["nvmlGpmQueryDeviceSupport"]))
    assert gpus.sample()["gpu0.mig0.memory_used"] == 2 << 30
    assert gpus.found.missing["gpu0.mig0.utilization"] == "NVML says: Function Not Found"


@pytest.mark.parametrize(
    ("driver", "reason"),
    [(Driver(Card(), init=9), "NVML says: Driver Not Loaded"), (Driver(), "NVML finds no GPU")],
)
def test_machine_without_a_gpu_says_why(driver: Driver, reason: str) -> None:
    machine = look_around(1, nvml_of(driver))
    assert str(machine.gpus.no_gpu).startswith(reason)
    assert not any(c.name.startswith("gpu") for s in machine.sources for c in s.columns)


def test_traffic_over_pcie_is_read_seldom_and_beside_the_others(driver_of: DriverOf) -> None:
    driver = driver_of(Card())
    gpus = watch(driver)
    (slow,) = [s for s in gpus.found.sources if "PCIe" in s.name]
    for moment in (100.0, 100.5, 101.9, 102.0):
        slow.sample(moment)
        while slow._is_reading:
            slow._take(0.1)
    assert driver.asked.count("DeviceGetPcieThroughput") == len(TRAFFIC) * (1 + 2)
