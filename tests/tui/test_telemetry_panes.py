"""Meters of the machine: samples that are missing, disks that idle, cards that others use."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from perftui.run.columns import EVENT_COLUMNS
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout
from perftui.run.manifest import GPU_DEVICES, NOT_SAMPLED
from perftui_tui.panes.gpu import gpu
from perftui_tui.panes.machine import cpu, disk, network
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.reading.view import RunView
from tests.tui.recorded import NOW, SECOND, START, manifest, write_run
from tests.tui.test_memory_screen import OVER

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


def test_an_idle_disk_does_not_fill_its_chart(tmp_path: Path) -> None:
    meter = disk(sampled(tmp_path, disk__read=[3000.0, 2000.0], disk__write=[0.0, 0.0]))
    assert meter.high == 1e6
    assert meter.limit == "1.0M"


def test_a_busy_disk_sets_the_scale(tmp_path: Path) -> None:
    meter = disk(sampled(tmp_path, disk__read=[3e8, 2e8], disk__write=[1e8, 0.0]))
    assert (meter.high, meter.limit) == (5e8, "500M")


@pytest.mark.parametrize(("over", "reading"), [(OVER, "busy 97 %"), ({}, "busy 0 %")])
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
    assert train is not None
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
    ended = sampled(tmp_path / "ended", OVER, **metrics)
    assert cpu(ended).reading == "90 %"
    assert cpu(ended).notes == ("training 4.1 of 16 cores", "mem 1.00 GiB")
    assert gpu(ended).reading == "busy 75 %"
    live = sampled(tmp_path / "live", **metrics)
    assert cpu(live).reading == "2 %"
    assert cpu(live).notes == ("training 0.0 of 16 cores", "mem 0 B")


def test_a_run_that_was_never_seen_to_live_keeps_its_samples(tmp_path: Path) -> None:
    for rss in ([0.0, 0.0], [None, None]):
        metrics: dict[str, Samples] = {"cpu__utilization": [7.0, 8.0], "processes__rss": rss}
        assert cpu(sampled(tmp_path / str(rss), OVER, **metrics)).reading == "8 %"


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
    snapshot = sampled(tmp_path, {"profile": profile}, **metrics)
    assert snapshot.run is not None
    layout = RunLayout(snapshot.run.root)
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


def test_what_holds_the_clocks_down_is_told(tmp_path: Path) -> None:
    usual = {"gpu0__utilization": [99.0]}
    for reasons, note in ((0x24, "clocks limited by power cap and thermal limit"), (0x1, "")):
        metrics = {**usual, "gpu0__throttle_reasons": [float(reasons)]}
        notes = gpu(sampled(tmp_path / f"{reasons}", **metrics)).notes
        assert [one for one in notes if "clocks" in one] == ([note] if note else [])


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
