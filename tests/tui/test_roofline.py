"""The roofline of the Ops screen: its table, its words and its chart."""

import csv
import io
import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.kernels.category import Precision
from perftui.analysis.kernels.limits import Card
from perftui.facts.gpu.roofline import roofline
from perftui.probe.ceilings import Ceiling, Ceilings, keep, rate_of
from perftui.run.manifest import DATA_DISK, GPU_DEVICES
from perftui.telemetry.files import mount_of
from perftui_tui.look.format import of_ceiling
from perftui_tui.look.rows import plain
from perftui_tui.panes.gpu import gpu_cards
from perftui_tui.panes.machine import disk
from perftui_tui.screens.ops.roofline import BEYOND, about, letters, roof, roofline_table, ticks
from perftui_tui.tables.rows import csv_text, ordered_rows
from tests.core.diagnosis.stories import ADD, BF16, H100, K, busy_with
from tests.tui.driving import opened, settled
from tests.tui.recorded import manifest
from tests.tui.test_dashboard import sampled

SIZES = [[4096, 4096], [4096, 4096]]
ARGUMENTS = {"Input Dims": SIZES, "Input type": ["c10::BFloat16"] * 2}
SMALL = {"Input Dims": [[64, 64]], "Input type": ["float"]}
STEP = (
    K(ADD, 100, ("aten::add",), args=ARGUMENTS),
    K(BF16, 200, ("aten::mm",), args=ARGUMENTS),
    K(BF16, 200, ("aten::mm",), args=ARGUMENTS),
    K(ADD, 10, ("aten::gather",), args=SMALL),
)


def words(line: str) -> str:
    return " ".join(line.split())


def rows_of(text: str) -> list[str]:
    return [words(line) for line in text.splitlines() if line.startswith("aten::")]


@pytest.mark.slow
@pytest.mark.keys("ops.roofline", "ops.kernels", "ops.timeline", "ops.open")
async def test_a_row_for_each_call_those_first_that_would_save_most(tmp_path: Path) -> None:
    trace = busy_with(*STEP).write(tmp_path / "a.pt.trace.json")
    async with opened(trace, (200, 50)) as (app, pilot):
        await pilot.press("3", "r")
        shown = await settled(pilot)
        assert "Ops Kernels [Roofline]" in shown
        # 2 x 4096^3 operations in 200 us are 687 TFLOP/s of 989, 101 MB in 100 us 1007 GB/s of
        # 3350.
        assert rows_of(shown)[:3] == [
            "aten::mm 4096x4096 4096x4096 a 16 bit or less 2 1365 687 503 arithmetic 69 % "
            "400 µs 122 µs",
            "aten::add 4096x4096 4096x4096 – 1 – – 1007 memory 30 % 100 µs 70.0 µs",
            "aten::gather 64x64 – 1 – – – – – 10.0 µs –",
        ]
        assert "100 % of a step's GPU time   could save: at the data sheet's roof" in shown
        assert "16 bit 989 TFLOP/s, memory 3.35 TB/s" in shown
        assert "perftui probe measures what this card reaches" in shown
        assert "[a]" in shown
        assert "16 bit or less, data sheet" in shown
        await pilot.press("o")
        assert "[Roofline] Ranges CUDA calls > aten::mm" in await settled(pilot)
        await pilot.press("backspace", "t")
        assert "aten::mm" in await settled(pilot)
        assert app.screen.NAME == "timeline"
        await pilot.press("3", "k")
        assert "Ops [Kernels] Roofline" in await settled(pilot)


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_what_a_smaller_screen_keeps(tmp_path: Path, size: tuple[int, int]) -> None:
    trace = busy_with(*STEP).write(tmp_path / "a.pt.trace.json")
    async with opened(trace, size) as (_, pilot):
        await pilot.press("3", "r")
        shown = await settled(pilot)
        row = rows_of(shown)[0]
        assert row.endswith("687 arithmetic 69 % 400 µs 122 µs" if size[0] == 80 else "122 µs")
        assert ("FLOP per byte" in shown) is (size[1] == 40)
        assert "NVIDIA H100" in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernels", "card", "said"),
    [
        ((K(BF16, 900, ("aten::mm",)),), H100, "(--shapes records them)"),
        (STEP, {**H100, "name": "Some card"}, "rates of Some card are not known (perftui probe"),
        ((), H100, "no roofline: no GPU kernels in this trace"),
    ],
)
async def test_without_sizes_or_a_known_card_it_says_what_to_do(
    tmp_path: Path, kernels: tuple[K, ...], card: dict[str, object], said: str
) -> None:
    trace = busy_with(*kernels, card=card).write(tmp_path / "a.pt.trace.json")
    async with opened(trace, (120, 40)) as (_, pilot):
        await pilot.press("3", "r")
        shown = await settled(pilot)
        assert said in shown
        assert "FLOP per byte" not in shown


def measured(card: str = str(H100["name"])) -> None:
    rates = ((Ceiling.FLOAT32, 50e12), (Ceiling.MEMORY, 3e12), (Ceiling.BFLOAT16, 800e12))
    found = tuple(rate_of(name, "FLOP/s", [[value]], "") for name, value in rates)
    assert keep(Ceilings("a host", 1, found, card, "580.1"))


def test_measured_roofs_stand_beside_those_of_the_data_sheet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    measured()
    found = roofline(busy_with(*STEP).analysis())
    table = roofline_table(found)
    texts = {column.title: column.text for column in table.columns}
    assert (texts["of roof"](0), texts["of measured"](0)) == ("69 %", "86 %")
    # 137 GFLOP at 800 TFLOP/s take 172 us.
    assert texts["could save"](0) == "56.4 µs"
    assert "could save: at the measured roof" in about(found)
    assert "measured: float32 50.0, 16 bit 800 TFLOP/s, memory 3.00 TB/s" in about(found)


def test_calls_above_their_roof_are_explained_and_unknown_figures_empty() -> None:
    slow, fast = busy_with(*STEP), busy_with(K(ADD, 10, ("aten::add",), args=ARGUMENTS))
    found = roofline(slow.analysis())
    assert BEYOND not in about(found)
    assert BEYOND in about(roofline(fast.analysis()))
    table = roofline_table(found)
    saved = csv_text(table, ordered_rows(table, table.sort_column, table.descending))
    product, _, lookup = csv.DictReader(io.StringIO(saved))
    assert float(product["TFLOP/s"]) == pytest.approx(2 * 4096**3 / 200e-6)
    assert (lookup["could save (ns)"], lookup["of roof (%)"]) == ("", "")
    # Letters are given to those with arithmetic.
    named = {found.calls[row].operator: letter for row, letter in letters(found.calls).items()}
    assert named == {"aten::mm": "a"}


@given(st.floats(1, 5000), st.floats(10, 9000), st.floats(-3, 2), st.floats(0.1, 8))
def test_a_roof_is_the_lower_of_both_rates(
    tera: float, giga: float, left: float, span: float
) -> None:
    card = Card(tera, 0, 0, giga)
    points = roof(card, Precision.FLOAT32, left, left + span)
    assert points[0][0] == left
    assert points[-1][0] == left + span
    for across, up in points:
        rate = min(tera * 1e12, giga * 1e9 * 10**across)
        assert math.isclose(10**up, rate, rel_tol=1e-6)
    # Between its corners it is straight, so that a line through them is the roof.
    for (x, y), (to_x, to_y) in itertools.pairwise(points):
        middle = 10 ** ((x + to_x) / 2)
        rate = min(tera * 1e12, giga * 1e9 * middle)
        assert math.isclose(10 ** ((y + to_y) / 2), rate, rel_tol=1e-6)
    assert roof(card, Precision.TF32, left, left + span) == []


@given(st.floats(-3, 15), st.floats(0.1, 8), st.integers(1, 30))
def test_ticks_are_round_and_within(low: float, span: float, room: int) -> None:
    found = ticks(low, low + span, room)
    assert found == sorted(found)
    for at in found:
        assert low <= math.log10(at) <= low + span
        digits = f"{at:.0e}"
        assert digits[0] in "125"


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
