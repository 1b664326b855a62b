"""Meters beside what ``perftui probe`` measured on this machine and its cards, never another."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.probe.ceilings import Ceiling, Ceilings, keep, rate_of
from perftui.run.manifest import DATA_DISK, GPU_DEVICES
from perftui.telemetry.files import mount_of
from perftui_tui.look.format import of_ceiling
from perftui_tui.look.rows import plain
from perftui_tui.panes.gpu import gpu_cards
from perftui_tui.panes.machine import disk
from tests.tui.recorded import manifest
from tests.tui.test_telemetry_panes import sampled

CARD = "NVIDIA H100 80GB HBM3"
RATES = ((Ceiling.DISK_READ, 3.1e9), (Ceiling.TO_DEVICE_PINNED, 25e9), (Ceiling.MEMORY, 2.948e12))
SAMPLED = {
    "disk__read": [4e8],
    "disk__write": [2e6],
    "data_disk__read": [3.8e8],
    "gpu0__utilization": [90.0],
    "gpu0__dram_activity": [48.0],
    "gpu0__pcie_receive": [1.2e9],
    "gpu0__pcie_transmit": [8e7],
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    # Telemetry of the tests is of the host of their manifest.
    monkeypatch.setattr("perftui.facts.gpu.cards.socket.gethostname", lambda: HOST)


HOST = manifest().host


def probed(tmp_path: Path, host: str = HOST, card: str = CARD, **known: float) -> None:
    rates = tuple(rate_of(name, "B/s", [[value]], "") for name, value in RATES)
    assert keep(Ceilings(host, 1, rates, card, "580.1", path=str(tmp_path), **known))


def meters(tmp_path: Path, *, place: str = "", cells: int = 200) -> tuple[tuple[str, ...], str]:
    """Notes of the disk, and the row of the card."""
    mount = mount_of(tmp_path)
    profile = {
        DATA_DISK: {HOST: {"place": place or (mount.point if mount else ""), "disk": "sda"}},
        GPU_DEVICES: {HOST: [{"prefix": "gpu0", "name": CARD}]},
    }
    snapshot = sampled(tmp_path, {"profile": profile}, **SAMPLED)
    (row,) = gpu_cards(snapshot, cells, 1)
    return disk(snapshot).notes, plain(row)


def test_a_meter_says_how_much_of_what_was_measured_here(tmp_path: Path) -> None:
    probed(tmp_path)
    notes, card = meters(tmp_path)
    assert notes == ("data 0.38 of 3.10 GB/s measured", "write 2 MB/s")
    # 2948 of the 3350 GB/s of the data sheet.
    assert "DRAM 48 of 88 % measured" in card
    assert "PCIe rx 1.20 of 25.0 GB/s measured tx   80 MB/s" in card


def test_no_figure_goes_for_it_on_a_narrow_screen(tmp_path: Path) -> None:
    probed(tmp_path)
    _, card = meters(tmp_path, cells=80)
    assert "DRAM 48 %" in card
    assert "PCIe rx 1.20 GB/s tx   80 MB/s" in card


@pytest.mark.parametrize(
    ("host", "card", "others", "has_disk"),
    [
        ("elsewhere", CARD, 0.0, False),
        (HOST, "NVIDIA A100-SXM4-80GB", 0.0, True),
        (HOST, CARD, 0.9, False),
    ],
)
def test_nothing_is_said_of_another_machine_or_card_or_of_a_busy_one(
    tmp_path: Path, host: str, card: str, others: float, has_disk: bool
) -> None:
    probed(tmp_path, host, card, others=others)
    notes, row = meters(tmp_path)
    assert "measured" not in row
    assert any("measured" in note for note in notes) is has_disk


def test_nothing_is_said_of_another_file_system(tmp_path: Path) -> None:
    probed(tmp_path)
    notes, _ = meters(tmp_path, place="/elsewhere")
    assert notes == ("write 2 MB/s",)


def test_what_is_measured_while_a_run_is_watched_is_shown(tmp_path: Path) -> None:
    assert "measured" not in meters(tmp_path)[1]
    probed(tmp_path)
    (tmp_path / "again").mkdir()
    assert "measured" in meters(tmp_path / "again")[1]


@pytest.mark.parametrize(
    ("now", "most", "text"),
    [
        (1.2e9, 3.1e9, "1.20 of 3.10 GB/s measured"),
        (4e5, 2.1e8, "0.40 of 210 MB/s measured"),
        (0.0, 9.999e8, "0.00 of 1.00 GB/s measured"),
    ],
)
def test_a_rate_stands_beside_the_highest_in_its_unit(now: float, most: float, text: str) -> None:
    assert of_ceiling(now, most) == text
