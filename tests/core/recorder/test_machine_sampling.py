"""What a recorder notes of the machine, and which of several on a host samples it."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from perftui.recorder import machine_sampling
from perftui.recorder.machine_sampling import (
    FRESH_SECONDS,
    Heartbeat,
    LeaderElection,
    MachineSampling,
    look_around,
    others_here,
)
from perftui.recorder.sink import FaultLog, LiveManifest
from perftui.run.control import Beat, write_beat
from perftui.run.journal import JournalReader
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import (
    DATA_DISK,
    GPU_DEVICES,
    GPU_PROCESSES,
    NOT_SAMPLED,
    Manifest,
    read_manifest,
    write_manifest,
)
from perftui.wire.spool import Spool
from tests.core.telemetry.fake_nvml import Card, Driver, nvml_of


def sampling_of(layout: RunLayout, spool: Spool, training: int | None = None) -> MachineSampling:
    """One for a training, this process unless it is said."""
    pid = training or os.getpid()
    (spool.root / f"ring-{pid}").touch()
    faults = FaultLog(layout.recorder_log)
    manifest = LiveManifest(layout.manifest, read_manifest(layout.manifest), faults)
    return MachineSampling(pid, spool, layout, manifest, faults)


@pytest.fixture
def sampling(layout: RunLayout, spool: Spool) -> MachineSampling:
    return sampling_of(layout, spool)


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
    sampling: MachineSampling, layout: RunLayout, monkeypatch: pytest.MonkeyPatch
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


HOLD = """\
import sys
from pathlib import Path
from perftui.recorder.machine_sampling import LeaderElection
from perftui.recorder.sink import FaultLog
from perftui.run.layout import RunLayout

election = LeaderElection(RunLayout(Path(sys.argv[1])), "h", FaultLog(Path(sys.argv[1]) / "log"))
print(election.is_won(), flush=True)
input()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunLayout:
    layout = create_run_directory(tmp_path, "r")
    write_manifest(layout.manifest, Manifest("r", ("python",), "/w", 5, "h"))
    return layout


def part_of(run: RunLayout, name: str) -> RunLayout:
    part = RunLayout(run.hosts / name)
    part.root.mkdir(parents=True)
    write_manifest(part.manifest, Manifest("r", ("python",), "/w", 5, "h"))
    return part


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the one that began the run, nor before asking again."""
    monkeypatch.setattr(machine_sampling, "HEAD_START", 0.0)
    monkeypatch.setattr(machine_sampling, "RETRY_SECONDS", 0.0)


def candidate(layout: RunLayout, host: str = "h") -> LeaderElection:
    return LeaderElection(layout, host, FaultLog(layout.recorder_log))


@pytest.mark.usefixtures("eager")
def test_one_on_each_host_wins_and_stays(run: RunLayout) -> None:
    first, second = candidate(run), candidate(part_of(run, "h-1-a"))
    other = candidate(part_of(run, "g-1-a"), "g")

    for _ in range(3):
        assert (first.is_won(), second.is_won(), other.is_won()) == (True, False, True)
    first.close()
    assert second.is_won()


def test_who_began_the_run_is_ahead_and_who_waits_asks_now_and_then(
    run: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(machine_sampling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    alone, first = candidate(part_of(run, "g-1-a"), "g"), candidate(run)
    joined = candidate(part_of(run, "h-1-a"))
    assert (alone.is_won(), joined.is_won()) == (False, False)
    now[0] += machine_sampling.HEAD_START
    assert (alone.is_won(), first.is_won(), joined.is_won()) == (True, True, False)
    first.close()
    assert not joined.is_won()
    now[0] += machine_sampling.RETRY_SECONDS
    assert joined.is_won()


@pytest.mark.subprocess
@pytest.mark.usefixtures("eager")
def test_another_takes_over_from_one_that_was_killed(run: RunLayout) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"True\n"
    waiting = candidate(part_of(run, "h-1-a"))
    assert not waiting.is_won()
    holder.kill()
    holder.communicate()
    assert waiting.is_won()


@pytest.mark.usefixtures("eager")
def test_where_the_disk_knows_no_locks_everybody_samples(
    run: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_file: int, _operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    part = part_of(run, "h-1-a")
    assert candidate(run).is_won()
    assert candidate(part).is_won()
    assert "every recorder on this host samples it" in part.recorder_log.read_text()


def test_the_other_recorders_here_are_those_that_gave_a_sign_lately(run: RunLayout) -> None:
    parts = [part_of(run, name) for name in ("h-1-a", "h-2-b", "h-3-c", "g-1-a")]
    Heartbeat(run, "h", 10, Path("/s0")).beat()
    for pid, part in enumerate(parts, start=11):
        Heartbeat(part, part.root.name[0], pid, Path("/s")).beat()
    old = time.time_ns() - int((FRESH_SECONDS + 1) * 1e9)
    write_beat(parts[2].heartbeat, Beat(7, old, "h", 13))

    assert [beat.pid for beat in others_here(run, "h")] == [11, 12]
    assert [beat.pid for beat in others_here(parts[0], "h")] == [10, 12]
    ended = Heartbeat(parts[1], "h", 12, Path("/s"))
    ended.end()
    assert [beat.pid for beat in others_here(run, "h")] == [11, None]


@pytest.mark.subprocess
@pytest.mark.usefixtures("eager")
def test_one_journal_of_the_machine_counts_the_trainings_of_all(
    run: RunLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui.recorder.machine_sampling.socket.gethostname", lambda: "h")
    trainings = [
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in "ab"
    ]
    layouts = [run, part_of(run, "h-1-a")]
    try:
        samplings = []
        for number, (layout, training) in enumerate(zip(layouts, trainings, strict=True)):
            spool = Spool(tmp_path / f"spool{number}")
            spool.root.mkdir()
            Heartbeat(layout, "h", training.pid, spool.root).beat()
            samplings.append(sampling_of(layout, spool, training.pid))
        for _ in range(2):
            for one in samplings:
                one.sample()
        samplings[0].finish()
        samplings[1].sample()
        samplings[1].finish()
    finally:
        for training in trainings:
            training.communicate()

    rows = [journal(layout.telemetry("h")) for layout in layouts]
    assert [len(found) for found in rows] == [2, 1]
    assert {row["processes.count"] for found in rows for row in found} == {2}
    # Both are known to train, by the spools of both.
    assert rows[0][1]["processes.ranks_cpu"] is not None
    assert rows[0][1]["processes.rest_cpu"] is None


def journal(path: Path) -> list[dict[str, float | None]]:
    reader = JournalReader(path)
    rows = reader.poll()
    assert reader.columns is not None
    return [dict(zip((one.name for one in reader.columns), row, strict=True)) for row in rows]


def test_the_lock_is_not_handed_to_the_training(run: RunLayout) -> None:
    chosen = candidate(run)
    assert chosen.is_won()
    lock = run.sampling_lock("h")
    held = []
    for one in Path("/proc/self/fd").iterdir():
        # The one that reads the directory is gone by now.
        with suppress(FileNotFoundError):
            held += [int(one.name)] if one.readlink() == lock else []
    assert [os.get_inheritable(file) for file in held] == [False]
    chosen.close()


def test_a_run_that_is_removed_before_the_first_sample_stays_removed(
    sampling: MachineSampling, layout: RunLayout
) -> None:
    sampler, journal = sampling._begin()
    shutil.rmtree(layout.root)
    journal.append([sampler.sample()])

    assert journal.lost == 1
    assert not layout.root.exists()


def test_what_is_found_of_the_gpus_is_in_the_manifest(
    layout: RunLayout, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(Card(uuid="GPU-1", gpm={}), Card(is_lost=True))
    looks = partial(look_around, nvml=nvml_of(driver))
    monkeypatch.setattr("perftui.recorder.machine_sampling.look_around", looks)
    monkeypatch.setattr("socket.gethostname", lambda: "h")
    sampling = sampling_of(layout, spool)
    sampling.sample()
    sampling.finish()
    written = read_manifest(layout.manifest)
    assert written.gpus == ("NVIDIA H100 80GB HBM3",)
    assert written.profile[GPU_DEVICES] == {
        "h": [{"prefix": "gpu0", "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1"}]
    }
    assert written.profile[NOT_SAMPLED]["h"]["gpu1"] == "NVML says: GPU is lost"
    assert "no_gpu" not in written.profile
    (row,) = journal(layout.telemetry("h"))
    assert row["gpu0.power"] == 345.6
