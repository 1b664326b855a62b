"""Meters of the machine: samples that are missing, disks that idle, cards that others use."""

from pathlib import Path

import pytest

from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout
from perftui_tui.panes.cpu import cpu
from perftui_tui.panes.disk_network import disk, network
from perftui_tui.panes.gpu import gpu
from perftui_tui.run_view import RunView
from perftui_tui.snapshot import Snapshot
from tests.tui.recorded import NOW, SECOND, START, manifest, write_run

Samples = list[float | None]


def sampled(tmp_path: Path, **metrics: Samples) -> Snapshot:
    """A run whose telemetry is ``metrics``; ``__`` in a name stands for a dot."""
    root = write_run(tmp_path / "runs")
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
    assert (meter.high, meter.limit) == (4e8, "400M")


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


def test_the_card_shown_stays_while_others_are_about_as_busy(tmp_path: Path) -> None:
    snapshot = sampled(
        tmp_path,
        gpu0__utilization=[5.0, 5.0],
        gpu1__utilization=[90.0, 88.0],
        gpu2__utilization=[91.0, 97.0],
    )
    assert gpu(snapshot).name == "GPU 1"
    assert gpu(snapshot).reading == "busy 88 %"
