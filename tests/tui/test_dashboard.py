"""The Overview as a cockpit: a row for each GPU, cores, workers, the last step, and a strip."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.run.columns import EVENT_COLUMNS
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout
from perftui.run.manifest import GPU_DEVICES, NOT_SAMPLED
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.rows import Row, plain, width
from perftui_tui.panes.gpu import gpu, gpu_cards
from perftui_tui.panes.machine import cores, cpu, disk, memory, network, workers
from perftui_tui.panes.step_bar import last_step, last_step_title
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.view import RunView
from tests.tui.driving import opened, press, text_of, until_shown
from tests.tui.recorded import (
    ENDED,
    NOW,
    SECOND,
    START,
    gpu_window,
    manifest,
    write_full_machine,
    write_run,
)

Samples = list[float | None]


def sampled(tmp_path: Path, over: Mapping[str, Any] | None = None, **metrics: Samples) -> Snapshot:
    """A run whose telemetry is ``metrics``; ``__`` in a name stands for a dot."""
    root = write_run(tmp_path / "runs", **(over or {}))
    path = RunLayout(root).telemetry(manifest().host)
    path.unlink()
    names = [name.replace("__", ".") for name in metrics]
    journal = JournalWriter(path, [Column("time"), *(Column(name) for name in names)])
    rows = zip(*metrics.values(), strict=True)
    journal.append([[START + at * SECOND, *row] for at, row in enumerate(rows)])
    journal.close()
    return RunView(root, lambda: NOW, lambda: False).read()


@pytest.mark.parametrize(
    ("read", "written", "high", "limit"),
    [([3000.0, 2000.0], [0.0, 0.0], 1e6, "1.0M"), ([3e8, 2e8], [1e8, 0.0], 5e8, "500M")],
)
def test_a_busy_disk_sets_the_scale_and_an_idle_one_does_not_fill_its_chart(
    tmp_path: Path, read: Samples, written: Samples, high: float, limit: str
) -> None:
    meter = disk(sampled(tmp_path, disk__read=read, disk__write=written))
    assert (meter.high, meter.limit) == (high, limit)


@pytest.mark.parametrize(("over", "reading"), [(ENDED, "busy 97 %"), ({}, "busy 0 %")])
def test_the_idle_end_of_a_training_that_is_over_is_not_what_it_did(
    tmp_path: Path, over: Mapping[str, Any], reading: str
) -> None:
    last_step = steps_last_until(tmp_path)
    while_training: Samples = [97.0] * (last_step + 1)
    snapshot = sampled(tmp_path, over, gpu0__utilization=[*while_training, 0.0, 0.0])
    assert gpu(snapshot).reading == reading
    assert gpu(snapshot).total == last_step + (1 if over else 3)


def steps_last_until(tmp_path: Path) -> int:
    """Whole seconds from the start of a run to the end of its last step."""
    train = RunView(write_run(tmp_path / "alone"), lambda: NOW, lambda: False).read().train
    return (int(train["start"][-1]) + int(train["duration"][-1]) - START) // SECOND


def test_one_missing_sample_is_bridged(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        disk__read=[2e6, None],
        disk__write=[1e6, None],
        network__receive=[5e3, None],
        network__transmit=[None, 7e3],
    )
    assert disk(snapshot).reading == "read 2 MB/s"
    assert disk(snapshot).notes == ("write 1 MB/s",)
    assert network(snapshot).reading == "in 5 kB/s"
    assert network(snapshot).notes == ("out 7 kB/s",)


def test_a_disk_that_does_not_say_how_busy_it_is_is_not_called_ok(tmp_path: Path) -> None:
    snapshot = sampled(tmp_path, disk__read=[2e6], disk__write=[1e6], disk__utilization=[None])
    assert disk(snapshot).word == ""


@pytest.mark.parametrize(
    ("read", "metric", "value"),
    [
        (cpu, "cpu__utilization", 95.0),
        (disk, "disk__read", 2e8),
        (network, "network__receive", 2e8),
        (gpu, "gpu0__utilization", 40.0),
    ],
)
def test_a_source_that_failed_has_a_history_and_no_present(tmp_path, read, metric, value) -> None:
    meter = read(sampled(tmp_path, **{metric: [value] * 30 + [None] * 30}))
    assert meter.reading == "no longer sampled"
    assert meter.word == ""
    assert meter.values[0] == value


def test_the_card_of_the_training_is_shown_not_the_busiest(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        gpu0__utilization=[30.0, 30.0],
        gpu0__process_memory=[4e9, None],
        gpu1__utilization=[99.0, 99.0],
        gpu1__process_memory=[None, None],
    )
    assert gpu(snapshot).name == "GPU 0"


def test_what_was_sampled_behind_the_end_is_not_the_present(tmp_path: Path) -> None:
    metrics: dict[str, Samples] = {
        "cpu__utilization": [80.0, 90.0, 3.0, 2.0],
        "processes__cpu": [400.0, 410.0, 20.0, 0.0],
        "processes__rss": [None, 2.0**30, 0.0, 0.0],
        "gpu0__utilization": [70.0, 75.0, 0.0, 0.0],
    }
    ended = sampled(tmp_path / "ended", ENDED, **metrics)
    assert cpu(ended).reading == "90 %"
    assert cpu(ended).notes == ("training 4.1 of 16 cores", "mem 1.00 GiB")
    assert gpu(ended).reading == "busy 75 %"
    live = sampled(tmp_path / "live", **metrics)
    assert cpu(live).reading == "2 %"
    assert cpu(live).notes == ("training 0.0 of 16 cores", "mem 0 B")


def test_a_run_that_was_never_seen_to_live_keeps_its_samples(tmp_path: Path) -> None:
    for rss in ([0.0, 0.0], [None, None]):
        metrics: dict[str, Samples] = {"cpu__utilization": [7.0, 8.0], "processes__rss": rss}
        assert cpu(sampled(tmp_path / str(rss), ENDED, **metrics)).reading == "8 %"


def test_the_card_shown_stays_while_others_are_about_as_busy(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        gpu0__utilization=[5.0, 5.0],
        gpu1__utilization=[90.0, 88.0],
        gpu2__utilization=[91.0, 97.0],
    )
    assert gpu(snapshot).name == "GPU 1"
    assert gpu(snapshot).reading == "busy 88 %"


GPUS = {
    GPU_DEVICES: {"node1": [{"prefix": f"gpu{n}", "name": "", "uuid": f"GPU-{n}"} for n in "01"]}
}


def on(tmp_path: Path, uuid: str, profile: dict[str, Any], **metrics: Samples) -> Snapshot:
    """A run whose training uses the GPU of that UUID."""
    layout = RunLayout(sampled(tmp_path, {"profile": profile}, **metrics).run.root)
    note = {"devices": {"visible": 1, "current": 0, "uuids": [uuid]}}
    events = JournalWriter(layout.rank(0).events, EVENT_COLUMNS)
    events.append([[START, "settings", 0, -1, note]])
    events.close()
    return RunView(layout.root, lambda: NOW, lambda: False).read()


def test_the_card_that_the_training_names_is_shown_before_all_others(tmp_path: Path) -> None:
    """Another run of the same user holds memory of the busy one."""
    snapshot = on(
        tmp_path,
        "1",
        GPUS,
        gpu0__utilization=[99.0, 99.0],
        gpu0__process_memory=[4e9, 4e9],
        gpu1__utilization=[30.0, 30.0],
    )
    assert (gpu(snapshot).name, gpu(snapshot).reading) == ("GPU 1", "busy 30 %")


def test_what_holds_the_clocks_down_is_told_by_the_meter_and_in_the_row(tmp_path: Path) -> None:
    usual = {"gpu0__utilization": [99.0]}
    for reasons, note in ((0x24, "clocks limited by power cap and thermal limit"), (0x1, "")):
        metrics = {**usual, "gpu0__throttle_reasons": [float(reasons)]}
        notes = gpu(sampled(tmp_path / f"{reasons}", **metrics)).notes
        assert [one for one in notes if "clocks" in one] == ([note] if note else [])
    snapshot = sampled(
        tmp_path,
        gpu0__utilization=[90.0],
        gpu0__clock_sm=[1410.0],
        gpu0__throttle_reasons=[float(0x20 | 0x4 | 0x1)],
    )
    (line,) = gpu_cards(snapshot, 100, 1)
    assert "1410 MHz power cap thermal limit" in plain(line)
    assert "warn" in {style for text, style in line if "MHz" in text}


PARTS = [{"prefix": f"gpu0.mig{n}", "name": "", "uuid": f"MIG-{n}"} for n in "01"]
DIVIDED = {
    GPU_DEVICES: {"node1": PARTS},
    NOT_SAMPLED: {"node1": {"gpu0.mig1.utilization": "NVML says: \x1b[31mNot Supported"}},
}


def test_a_mig_device_is_shown_under_its_own_name(tmp_path: Path) -> None:
    both = {f"gpu0__mig{n}__utilization": [10.0 * n, 10.0 * n] for n in (1, 2)}
    snapshot = on(tmp_path, "1", DIVIDED, gpu0__power=[99.0, 99.0], **both)
    assert (gpu(snapshot).name, gpu(snapshot).reading) == ("GPU0 MIG1", "busy 10 %")


def test_why_a_mig_device_has_no_use_is_said(tmp_path: Path) -> None:
    memory = {"gpu0__mig1__memory_used": [2.0**30] * 2, "gpu0__mig1__memory_total": [2.0**31] * 2}
    meter = gpu(on(tmp_path, "1", DIVIDED, gpu0__power=[99.0, 99.0], **memory))
    assert meter.absent == (
        "GPU0 MIG1 busy: unknown (NVML says: \\x1b[31mNot Supported), mem 1.00 GiB of 2.00 GiB"
    )


def test_a_gpu_that_cannot_be_sampled_is_not_called_absent(tmp_path: Path) -> None:
    reason = "NVML says: Driver Not Loaded; Intel GPUs are not sampled"
    run = {"gpu": True, "profile": {"no_gpu": reason}}
    meter = gpu(sampled(tmp_path, run, cpu__utilization=[1.0]))
    assert meter.absent == "the GPU is not sampled (Driver Not Loaded; Intel GPUs are not sampled)"


GIB = 2**30


def read(root: Path) -> Snapshot:
    return RunView(root, lambda: NOW, lambda: False).read()


def text(rows: list[Row]) -> list[str]:
    return [plain(line).rstrip() for line in rows]


def test_a_card_is_told_in_one_row(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        gpu0__utilization=[40.0, 93.0],
        gpu0__memory_used=[61.0 * GIB] * 2,
        gpu0__memory_total=[80.0 * GIB] * 2,
        gpu0__power=[626.4] * 2,
        gpu0__power_limit=[700.0] * 2,
        gpu0__temperature=[58.0] * 2,
        gpu0__clock_sm=[1755.0] * 2,
        gpu0__tensor_activity=[32.0] * 2,
        gpu0__ecc_uncorrected=[0.0] * 2,
    )
    (line,) = text(gpu_cards(snapshot, 120, 1))
    assert line.startswith("GPU 0      93 % OK ")
    assert "61.0/80 GiB" in line
    assert "626/700 W" in line
    assert "58 °C  1755 MHz  tensor 32 %" in line
    assert "ECC" not in text(gpu_cards(snapshot, 200, 1))[0]


def test_a_wide_row_has_the_links_the_holders_and_memory_errors(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        gpu0__utilization=[93.0],
        gpu0__pcie_generation=[4.0],
        gpu0__pcie_width=[8.0],
        gpu0__pcie_receive=[1.2e9],
        gpu0__pcie_transmit=[8e7],
        gpu0__nvlink_receive=[31e9],
        gpu0__nvlink_transmit=[29e9],
        gpu0__process_memory=[60.0 * GIB],
        gpu0__processes=[3.0],
        gpu0__ecc_uncorrected=[2.0],
    )
    (line,) = gpu_cards(snapshot, 200, 1)
    assert "PCIe gen4 x8 rx 1.20 GB/s tx   80 MB/s" in plain(line)
    assert "NVLink rx 31.0 GB/s tx 29.0 GB/s" in plain(line)
    assert "run 60.0 GiB  3 processes" in plain(line)
    assert {style for text, style in line if "ECC 2 uncorrected" in text} == {"warn"}


def test_who_else_holds_memory_of_a_card_is_named(tmp_path: Path) -> None:
    serving = {"pid": 4123, "program": "python serve.py", "user": "ada", "memory": 12 * GIB}
    over = {"profile": {"gpu_processes": {manifest().host: {"gpu0": [serving, {"pid": 4200}]}}}}
    snapshot = sampled(tmp_path, over, gpu0__utilization=[93.0])
    assert (
        "pid 4123 python serve.py (ada) 12.0 GiB and 1 more"
        in (text(gpu_cards(snapshot, 120, 1))[0])
    )


def test_a_part_of_a_card_is_called_by_its_name(tmp_path: Path) -> None:
    metrics: dict[str, list[float | None]] = {"gpu0.mig1.utilization": [40.0]}
    (line,) = text(gpu_cards(sampled(tmp_path, **metrics), 60, 1))
    assert line.startswith("GPU0 MIG1  40 % LOW")


def test_what_a_card_does_not_say_takes_no_room(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        gpu0__utilization=[50.0],
        gpu1__utilization=[90.0],
        gpu1__power=[300.0],
        gpu0__memory_used=[8.0 * GIB],
    )
    first, second = text(gpu_cards(snapshot, 100, 2))
    assert "LOW" in first
    assert "mem 8.00 GiB" in first
    assert "W" not in first.partition("LOW")[2]
    assert second.endswith("300 W")
    assert "°C" not in first + second


def test_the_cards_of_the_run_come_first_where_not_all_fit(tmp_path: Path) -> None:
    metrics: dict[str, list[float | None]] = {f"gpu{n}__utilization": [90.0] for n in range(8)}
    metrics["gpu6__process_memory"] = [30.0 * GIB]
    lines = text(gpu_cards(sampled(tmp_path, **metrics), 80, 4))
    assert [line.split()[1] for line in lines[:3]] == ["0", "1", "6"]
    assert lines[3].strip() == "and 5 more GPUs"


def test_without_a_card_the_reason_is_told(tmp_path: Path) -> None:
    (line,) = text(gpu_cards(sampled(tmp_path, cpu__utilization=[9.0]), 80, 1))
    assert line.startswith("GPU       no GPU: times are CPU times")


def test_a_card_that_is_lost_is_not_shown_as_idle(tmp_path: Path) -> None:
    snapshot = sampled(tmp_path, gpu0__utilization=[90.0] * 5 + [None] * 30)
    (line,) = text(gpu_cards(snapshot, 80, 1))
    assert "no longer sampled" in line


MANY_CORES = {**dict.fromkeys(range(100), 10.0), 57: 100.0}


@pytest.mark.parametrize(
    ("busy", "lines"),
    [
        ({0: 0.0, 1: 50.0, 2: 100.0}, ["Cores     ▁▄█  3 cores, 1 full"]),
        (
            MANY_CORES,
            [f"Cores     {'▁' * 11}█{'▁' * 8}  100 cores, 1 full, the busiest of 5 in each"],
        ),
        # Two are switched off.
        ({0: 10.0, 2: 20.0, 7: 100.0}, ["Cores     ▁▂█  3 cores, 1 full"]),
        # Older runs have no single cores.
        ({}, []),
    ],
)
def test_each_core_is_a_block_while_there_is_room(
    tmp_path: Path, busy: dict[int, float], lines: list[str]
) -> None:
    samples: dict[str, Samples] = {f"cpu__core{number}": [value] for number, value in busy.items()}
    assert text(cores(sampled(tmp_path, cpu__utilization=[50.0], **samples), 80, 1)) == lines


def test_memory_that_is_read_seldom_is_told_in_between(tmp_path: Path) -> None:
    size = 4 * GIB
    snapshot = sampled(
        tmp_path,
        memory__used=[2.0 * size] * 41,
        memory__total=[4.0 * size] * 41,
        processes__rss=[2.0 * size] * 41,
        processes__pss=[1.0 * size, *[None] * 40],
    )
    assert memory(snapshot).notes == ("8.00 GiB of 16.0 GiB", "training 4.00 GiB")


def test_memory_is_told_with_what_can_run_out(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        memory__used=[62.0 * GIB],
        memory__total=[64.0 * GIB],
        processes__rss=[50.0 * GIB],
        processes__pss=[41.0 * GIB],
        memory__shm_used=[7.0 * GIB],
        memory__shm_total=[8.0 * GIB],
    )
    meter = memory(snapshot)
    assert (meter.reading, meter.word) == ("97 %", "FULL")
    assert meter.notes[1:] == ("training 41.0 GiB", "shared 7.00 GiB of 8.00 GiB")


def test_a_step_is_drawn_with_its_phases_the_gpu_and_the_gaps() -> None:
    analysis = gpu_window().analysis()
    snapshot = Snapshot(Path("run"), Phase.ENDED, "train.py", 0, analysis=analysis)
    assert last_step_title(snapshot) == "Last profiled step: 299 ms"
    step, gpu, gaps = text(last_step(snapshot, 107, 3))
    # A column is 3 ms: the loader takes 121 of them, then 98 ms are of kernels.
    assert step.startswith("step   ▏data loader wait")
    assert gpu.startswith("GPU 0")
    busy = gpu.removeprefix("GPU 0  ")
    assert busy[:40].strip() == ""
    assert busy[43:71] == "█" * 28
    assert "ms data loader wait" in gaps


def test_without_a_window_the_key_for_one_is_told() -> None:
    live = Snapshot(Path("run"), Phase.LIVE, "train.py", 0)
    told = hint("no window profiled yet: {app.capture} profiles one")
    assert text(last_step(live, 80, 3)) == [told]
    over = Snapshot(Path("run"), Phase.ENDED, "train.py", 0)
    assert text(last_step(over, 80, 3)) == ["no window was profiled"]


@settings(deadline=None)
@given(cells=st.integers(1, 240), height=st.integers(1, 6))
def test_the_last_step_fits_at_every_size(cells: int, height: int) -> None:
    snapshot = Snapshot(Path("run"), Phase.ENDED, "train.py", 0, analysis=WINDOW)
    rows = last_step(snapshot, cells, height)
    assert 0 < len(rows) <= height
    assert all(width(line) <= cells for line in rows)


WINDOW = gpu_window().analysis()


PANES: dict[str, Callable[[Snapshot, int, int], list[Row]]] = {
    "cards": gpu_cards,
    "cores": cores,
    "workers": workers,
}


@pytest.mark.parametrize("name", PANES)
def test_rows_fit_at_every_size(tmp_path: Path, name: str) -> None:
    full = read(write_full_machine(tmp_path, cards=8))

    @settings(deadline=None)
    @given(cells=st.integers(1, 240), height=st.integers(1, 10))
    def fits(cells: int, height: int) -> None:
        rows = PANES[name](full, cells, height)
        assert 0 < len(rows) <= height
        assert all(width(line) <= cells for line in rows)

    fits()


async def test_disks_and_networks_are_shown_where_they_move(tmp_path: Path) -> None:
    still = sampled(tmp_path, disk__read=[10.0] * 5, disk__write=[0.0] * 5)
    moving = tmp_path / "moving"
    for root, is_shown in ((still.source, False), (write_full_machine(moving, cards=0), True)):
        async with opened(root) as (app, _):
            assert ("Disk  " in text_of(app)) is is_shown
            assert "Network" not in text_of(app)


async def test_eight_gpus_fit_beside_a_finding(tmp_path: Path) -> None:
    async with opened(write_full_machine(tmp_path, cards=8), (120, 40)) as (app, pilot):
        await until_shown(pilot, "GPU 7")
        shown = text_of(app)
        assert all(f"GPU {number} " in shown for number in range(8))
        for words in ("Cores", "Memory", "Workers", "Last profiled step", "num_workers"):
            assert words in shown


async def test_eight_gpus_leave_room_for_findings_and_operators_on_a_wide_screen(
    tmp_path: Path,
) -> None:
    root = write_full_machine(tmp_path, cards=8, window=gpu_window())
    async with opened(root, (200, 50)) as (app, pilot):
        await until_shown(pilot, "conv_kernel")
        shown = text_of(app)
        assert shown.count("PCIe gen5 x16") == 8
        assert "Last profiled step" in shown
        assert app.screen.query_one("#findings").size.height > 8


async def test_a_strip_of_a_terminal_shows_the_verdict_a_step_and_three_meters(
    tmp_path: Path,
) -> None:
    async with opened(write_full_machine(tmp_path, cards=2), (40, 8)) as (app, pilot):
        await until_shown(pilot, "BOTTLENECK")
        lines = text_of(app).splitlines()
        assert [line.split()[0].strip("▏") for line in lines[4:7]] == ["Step", "GPU", "Loader"]
        assert lines[2].startswith("▏wait▏forward")
        assert lines[7].startswith("train ")
        assert "loss" in lines[7]
        assert "1 Overview" not in text_of(app)
        await pilot.resize_terminal(80, 24)
        await until_shown(pilot, "DO THIS")


async def test_a_strip_without_a_gpu_shows_the_cpu(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (40, 8)) as (app, pilot):
        await until_shown(pilot, "BOTTLENECK")
        lines = text_of(app).splitlines()
        assert [line.split()[0] for line in lines[4:7]] == ["Step", "Loader", "CPU"]


async def test_other_screens_lead_back_to_the_overview_which_fits(tmp_path: Path) -> None:
    async with opened(write_run(tmp_path), (50, 10)) as (app, pilot):
        await until_shown(pilot, "BOTTLENECK")
        await press(pilot, "3", until="needed  60 x 18")
        await until_shown(pilot, "1 shows the Overview, which fits")
        await press(pilot, "1", until="BOTTLENECK")
        await press(pilot, "3", until="needed  60 x 18")
        await pilot.resize_terminal(80, 24)
        await until_shown(pilot, "no window profiled yet")
        assert app.current_mode == "ops"
