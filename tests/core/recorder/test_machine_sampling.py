"""What the recorder notes about the machine it samples, and how much of a core that may take."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from perftui.recorder import machine_sampling
from perftui.recorder.faults import FaultLog
from perftui.recorder.machine_sampling import MachineSampling
from perftui.recorder.sink import LiveManifest
from perftui.run.journal import JournalReader
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import (
    DATA_DISK,
    GPU_PROCESSES,
    NOT_SAMPLED,
    Manifest,
    read_manifest,
    write_manifest,
)
from perftui.telemetry.host_sources import look_around
from perftui.wire.spool import Spool
from tests.core.telemetry.fake_nvml import Card, Driver, nvml_of


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    layout = create_run_directory(tmp_path / "runs", "r")
    write_manifest(layout.manifest, Manifest("r", ("python", "t.py"), "/w", 5, "h"))
    return layout


@pytest.fixture
def sampling(layout: RunLayout, tmp_path: Path) -> MachineSampling:
    spool = Spool(tmp_path / "spool")
    spool.root.mkdir()
    (spool.root / f"ring-{os.getpid()}").touch()
    faults = FaultLog(layout.recorder_log)
    manifest = LiveManifest(layout.manifest, read_manifest(layout.manifest), faults)
    return MachineSampling(os.getpid(), spool, layout, manifest, faults)


def _rows(layout: RunLayout) -> int:
    (journal,) = layout.root.glob("telemetry*")
    return len(JournalReader(journal).poll())


def test_what_is_not_sampled_is_noted_with_its_reason(
    sampling: MachineSampling, layout: RunLayout
) -> None:
    sampling.sample()
    sampling.finish()
    (reasons,) = read_manifest(layout.manifest).profile[NOT_SAMPLED].values()
    if not Path("/sys/class/infiniband").exists():
        assert reasons["infiniband"] == "no InfiniBand ports"
    if not Path("/sys/devices/system/cpu/cpu0/cpufreq").exists():
        assert reasons["cpu.frequency"] == "no cpufreq in /sys/devices/system/cpu"
    assert all(isinstance(reason, str) and reason for reason in reasons.values())


def test_where_the_data_lies_is_noted_once(
    sampling: MachineSampling, layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    note = LiveManifest.note

    def count(manifest: LiveManifest, name: str, fact: object) -> None:
        notes.append(name)
        note(manifest, name, fact)

    monkeypatch.setattr(LiveManifest, "note", count)
    for _ in range(3):
        sampling.sample()
    sampling.finish()
    (found,) = json.loads(layout.manifest.read_text())["profile"][DATA_DISK].values()
    assert set(found) == {"disk", "place", "file_system", "found_by"}
    assert os.path.ismount(found["place"])
    assert notes.count(DATA_DISK) == 1


def test_who_else_holds_gpu_memory_is_noted(
    sampling: MachineSampling,
    layout: RunLayout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = os.getppid()
    card = Card(compute={os.getpid(): 3 << 30, other: 2 << 30})
    nvml = nvml_of(Driver(card))
    monkeypatch.setattr(machine_sampling, "look_around", partial(look_around, nvml=nvml))
    deadline = time.monotonic() + 30
    while GPU_PROCESSES not in read_manifest(layout.manifest).profile:
        assert time.monotonic() < deadline
        sampling.sample()
        time.sleep(0.01)
    sampling.finish()
    (found,) = json.loads(layout.manifest.read_text())["profile"][GPU_PROCESSES].values()
    (process,) = found["gpu0"]
    assert (process["pid"], process["memory"]) == (other, 2 << 30)
    assert process["program"].startswith(psutil.Process(other).name())


@pytest.mark.slow
def test_samples_that_cost_too_much_are_left_out(
    sampling: MachineSampling, layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, cost = time.monotonic(), 0.0
    monkeypatch.setattr(machine_sampling.time, "monotonic", lambda: now)
    sampling.sample()
    assert _rows(layout) == 1
    monkeypatch.setattr("perftui.telemetry.source.time.thread_time", lambda: cost)
    journal = sampling._journal
    assert journal is not None
    append = journal.append

    def dear(rows: list[list[object]]) -> None:
        nonlocal cost
        cost += 0.02
        append(rows)

    monkeypatch.setattr(journal, "append", dear)
    for _ in range(400):
        now += 0.5
        sampling.sample()
    sampling.finish()
    # 20 ms each: a hundredth of a core is one in 2 s, and what may be left for later two more.
    assert 100 <= _rows(layout) - 1 <= 104
