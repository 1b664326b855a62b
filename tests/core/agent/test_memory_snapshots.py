"""Snapshots of the memory of a GPU that is played."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perftui.agent.recording import memory_snapshots
from perftui.agent.recording import output as rings
from perftui.agent.recording.device import Device
from perftui.agent.recording.memory_snapshots import LEAST_PAUSE_NS, MOST_FAILURES, MemorySnapshots
from perftui.agent.recording.recording import Recording
from perftui.agent.recording.steps import TRAIN, Boundary, StepMachine
from perftui.agent.safety.meter import Meter
from perftui.recorder.spool import RingReader
from perftui.wire.ring import PROFILED_FLAG
from tests.core.agent.conftest import STEPS

GIB = 1 << 30


class Cuda:
    """``torch.cuda`` and what lies under it, with an allocator that says what the test says."""

    def __init__(self) -> None:
        self.cuda = self.memory = self._C = self
        self.is_used = False
        self.waiting: list[Callable[[], None]] = []
        self.history: dict[str, Any] = {}
        self.snapshot: Any = {"segments": [], "device_traces": []}
        self.taken = 0
        self.peak = 0
        self.observe: Callable[..., None] | None = None

    def _lazy_call(self, work: Callable[[], None]) -> None:
        if self.is_used:
            work()
        else:
            self.waiting.append(work)

    def use(self) -> None:
        self.is_used = True
        for work in self.waiting:
            work()

    def _record_memory_history(self, **options: Any) -> None:
        assert self.is_used, "that would make a context"
        self.history = options

    def _cuda_attach_out_of_memory_observer(self, observe: Callable[..., None]) -> None:
        assert self.is_used, "that would make a context"
        self.observe = observe

    def _snapshot(self) -> Any:
        self.taken += 1
        if isinstance(self.snapshot, Exception):
            raise self.snapshot
        return self.snapshot

    def run_out(self, asked: int) -> None:
        assert self.observe is not None
        self.observe(0, asked, 70 * GIB, GIB)

    def _cuda_memoryStats(self, _: int) -> dict[str, Any]:  # noqa: N802 - torch calls it so
        both = {"all": {"current": self.peak, "peak": self.peak}}
        return {"allocated_bytes": both, "reserved_bytes": both}

    def is_initialized(self) -> bool:
        return self.is_used

    def is_current_stream_capturing(self) -> bool:
        return False

    def current_device(self) -> int:
        return 0


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


def armed(cuda: Cuda, spool: Path, share: int = 0, *, is_used: bool = True) -> MemorySnapshots:
    snapshots = MemorySnapshots(cuda, spool, share)
    snapshots.arm()
    if is_used:
        cuda.use()
    return snapshots


def notes(spool: Path, kind: str) -> list[dict[str, Any]]:
    path = spool / f"notes-{os.getpid()}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [{**line["data"], "step": line["step"]} for line in lines if line["kind"] == kind]


def files(spool: Path) -> list[str]:
    return sorted(path.name for path in spool.glob("memory-*"))


def take(spool: Path) -> None:
    """What the recorder does."""
    for path in spool.glob("memory-*.pickle"):
        path.unlink()


def test_nothing_is_asked_of_torch_before_the_script_uses_the_gpu(
    cuda: Cuda, tmp_path: Path
) -> None:
    assert not armed(cuda, tmp_path, is_used=False).observe(GIB, 1, 1)
    assert (cuda.history, cuda.observe, cuda.taken) == ({}, None, 0)

    cuda.use()
    assert cuda.history["max_entries"] == memory_snapshots.MOST_EVENTS
    assert cuda.history["stacks"] == "python"
    assert cuda.observe is not None


def test_a_peak_is_written_as_torch_writes_it_for_its_owner_only(
    cuda: Cuda, tmp_path: Path
) -> None:
    snapshots = armed(cuda, tmp_path)
    assert snapshots.observe(3 * GIB, 4, 1)

    (note,) = notes(tmp_path, "memory_snapshot")
    path = tmp_path / note["file"]
    assert pickle.loads(path.read_bytes()) == cuda.snapshot  # noqa: S301 - our own
    assert path.stat().st_mode & 0o777 == 0o600
    assert note == {
        "file": f"memory-{os.getpid()}-0.pickle",
        "reason": "peak",
        "peak": 3 * GIB,
        "bytes": path.stat().st_size,
        "step": 5,
    }


def test_only_a_peak_that_is_clearly_higher_is_another(cuda: Cuda, tmp_path: Path) -> None:
    snapshots = armed(cuda, tmp_path)
    later = iter(range(1 << 62, 1 << 63, 1 << 50))

    taken = []
    for peak in (100, 100, 105, 106, 111, 112):
        taken.append(snapshots.observe(peak, 1, next(later)))
        take(tmp_path)
    assert taken == [True, False, False, True, False, True]


def test_snapshots_that_nobody_takes_are_not_piled_up(cuda: Cuda, tmp_path: Path) -> None:
    snapshots = armed(cuda, tmp_path)
    for peak in range(1, 6):
        snapshots.observe(peak * GIB, 1, peak << 62)

    assert len(files(tmp_path)) == 2
    (warning,) = notes(tmp_path, "warning")
    assert "not collected the last ones yet" in warning["message"]


def test_snapshots_are_as_rare_as_they_are_slow(
    cuda: Cuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = armed(cuda, tmp_path, share=100)
    second = 1_000_000_000
    monkeypatch.setattr(memory_snapshots, "perf_counter_ns", lambda: 102 * second)
    assert snapshots.observe(GIB, 1, 100 * second)

    due = 102 * second + 100 * 2 * second
    assert not snapshots.observe(2 * GIB, 2, due - 1)
    assert snapshots.observe(2 * GIB, 3, due)
    assert due - 102 * second > LEAST_PAUSE_NS


def test_memory_that_runs_out_is_kept_beside_the_peak_and_nothing_is_raised(
    cuda: Cuda, tmp_path: Path
) -> None:
    snapshots = armed(cuda, tmp_path)
    snapshots.observe(3 * GIB, 4, 1)
    cuda.run_out(5 * GIB)

    note = notes(tmp_path, "memory_snapshot")[1]
    assert (note["reason"], note["asked"], note["device"]) == ("out of memory", 5 * GIB, 0)
    assert note["step"] == 5
    assert len(files(tmp_path)) == 2

    take(tmp_path)
    cuda.snapshot = RuntimeError("no memory for that either")
    cuda.run_out(5 * GIB)
    (warning,) = notes(tmp_path, "warning")
    assert "no memory for that either" in warning["message"]


def test_a_search_for_the_largest_batch_is_not_slowed_down_for_ever(
    cuda: Cuda, tmp_path: Path
) -> None:
    armed(cuda, tmp_path)
    for _ in range(20):
        cuda.run_out(GIB)
        take(tmp_path)

    assert cuda.taken == MOST_FAILURES


def test_a_snapshot_that_is_too_large_is_given_up_whole(
    cuda: Cuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_snapshots, "MOST_BYTES", 1 << 20)
    snapshots = armed(cuda, tmp_path)
    cuda.snapshot = {"segments": [bytes(500_000), b"x" * 600_000]}
    snapshots.observe(GIB, 1, 1)

    assert files(tmp_path) == []
    (warning,) = notes(tmp_path, "warning")
    assert "it takes more than 1 MiB" in warning["message"]


def test_a_torch_that_cannot_record_is_said_and_the_first_use_succeeds(
    cuda: Cuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> None:
        raise TypeError("unknown option")

    monkeypatch.setattr(cuda, "_record_memory_history", fail)
    snapshots = armed(cuda, tmp_path)
    snapshots.close()

    (warning,) = notes(tmp_path, "warning")
    assert warning["message"] == "GPU memory snapshots failed: TypeError: unknown option"
    assert not snapshots.observe(GIB, 1, 1)


def test_a_spool_that_is_gone_stops_no_training(cuda: Cuda, tmp_path: Path) -> None:
    armed(cuda, tmp_path / "gone").observe(GIB, 1, 1)
    cuda.run_out(GIB)


def test_a_step_that_was_held_up_says_so(cuda: Cuda, tmp_path: Path) -> None:
    ring = rings.create_ring(tmp_path / "ring-1", {"pid": 1, "rank": 0, "world_size": 1})
    meter = Meter()
    device = Device(cuda, ring, meter)
    recording = Recording(ring, StepMachine(lambda: True, lambda: False), meter, 1, device)
    recording.snapshots = armed(cuda, tmp_path)
    cuda.peak = GIB
    recording.ended([Boundary(TRAIN, recording.now() + 10, 0)])
    recording.ended([Boundary(TRAIN, recording.now() + 10, 0)])

    reader = RingReader(tmp_path / "ring-1")
    records = reader.poll()
    reader.close()
    (waited,) = [one for one in records if one.kind == "profiler"]
    steps = [one for one in records if one.kind == "step"]
    assert waited.step == 1
    assert [bool(one.flag & PROFILED_FLAG) for one in steps] == [False, True]
    assert notes(tmp_path, "memory_snapshot")[0]["peak"] == GIB


def test_without_a_gpu_there_is_nothing_to_snapshot_and_that_is_said(train: Any) -> None:
    source = STEPS + "train(5)\nprint(torch.cuda.is_initialized())"
    run = train(source, options={"memory_snapshot": True, "profile": False})

    assert (run.code, run.out) == (0, "False\n")
    assert [one["message"] for one in run.notes("warning")] == [
        "there is no GPU memory to snapshot: the script has not used CUDA"
    ]
