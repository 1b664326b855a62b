"""Several recorders make one run: on several hosts, over a shared directory."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from perftui.recorder import launch as joining
from perftui.recorder.launch import JOIN_VARIABLE, Launch, make_or_merge, merge_key, prepare
from perftui.run.columns import STEP_COLUMNS
from perftui.run.control import (
    CAPTURE,
    RESIZE,
    SILENT_SECONDS,
    Beat,
    request,
    take_requests,
    write_beat,
)
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import (
    GPU_DEVICES,
    NOT_SAMPLED,
    Manifest,
    Status,
    read_manifest,
    write_manifest,
)
from perftui.run.reader import RunReader, list_runs

AGENT = Path(__file__).with_name("fake_agent.py")
SLURM = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}


@pytest.mark.parametrize(
    ("environment", "command", "key"),
    [
        ({}, ["torchrun", "--nnodes=2"], None),
        ({JOIN_VARIABLE: "job-5"}, ["python"], "job-5"),
        ({**SLURM, "WORLD_SIZE": "16"}, ["python", "t.py"], "slurm 7.0.0"),
        (SLURM, ["torchrun", "--nnodes", "2"], "slurm 7.0.0"),
        ({**SLURM, "SLURM_RESTART_COUNT": "3"}, ["torchrun", "--nnodes=2"], "slurm 7.0.3"),
        (SLURM, ["python", "sweep.py"], None),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "1"}, ["torchrun", "--nnodes=2"], None),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}, ["torchrun", "--nnodes=2"], None),
    ],
)
def test_what_the_recorders_of_a_run_have_in_common(
    environment: dict[str, str], command: list[str], key: str | None
) -> None:
    assert merge_key(environment, command) == key


def manifest(**changes: object) -> Manifest:
    return replace(Manifest("r", ("python", "t.py"), "/w", 5, "elsewhere"), **changes)


def begin(runs: Path, run_id: str) -> RunLayout:
    layout = create_run_directory(runs, run_id)
    write_manifest(layout.manifest, manifest(run_id=run_id))
    return layout


def test_however_many_start_at_once_one_makes_the_run(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def join(number: int) -> Path:
        barrier.wait()
        make = partial(begin, tmp_path, f"r{number}")
        return make_or_merge(tmp_path, "job", f"node{number}", make).root

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(join, range(8)))
    (run,) = list_runs(tmp_path)
    assert found.count(run.root) == 1
    assert {path.parent for path in found if path != run.root} == {run.root / "hosts"}
    assert len(set(found)) == 8


def test_a_word_that_is_used_again_makes_another_run(tmp_path: Path) -> None:
    first = make_or_merge(tmp_path, "job", "a", lambda: begin(tmp_path, "r1"))
    write_manifest(first.manifest, manifest(status=Status.EXITED, exit_code=0))
    second = make_or_merge(tmp_path, "job", "b", lambda: begin(tmp_path, "r2"))
    assert second.root == tmp_path / "r2"
    third = make_or_merge(tmp_path, "job", "c", lambda: begin(tmp_path, "r3"))
    assert third.root.parent == tmp_path / "r2" / "hosts"
    assert third.root.stat().st_mode & 0o777 == 0o700


def test_a_run_whose_host_died_is_not_joined(tmp_path: Path) -> None:
    first = make_or_merge(tmp_path, "job", "a", lambda: begin(tmp_path, "r1"))
    old = time.time_ns() - int(1e9 * (SILENT_SECONDS + 1))
    write_beat(first.heartbeat, Beat(1, time.time_ns(), "a"))
    assert make_or_merge(tmp_path, "job", "b", lambda: begin(tmp_path, "r2")).run.root == first.root
    write_beat(first.heartbeat, Beat(2, old, "a"))
    os.utime(first.heartbeat, ns=(old, old))
    second = make_or_merge(tmp_path, "job", "b", lambda: begin(tmp_path, "r2"))
    assert second.root == tmp_path / "r2"


def test_one_that_died_before_it_made_the_run_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> RunLayout:
        raise OSError("killed")

    monkeypatch.setattr(joining, "PATIENCE", 0.1)
    with pytest.raises(OSError, match="killed"):
        make_or_merge(tmp_path, "job", "a", die)
    assert make_or_merge(tmp_path, "job", "b", lambda: begin(tmp_path, "r")).root == tmp_path / "r"


def test_only_who_asks_for_it_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JOIN_VARIABLE, "job")
    launch = Launch(("python", "t.py"), tmp_path, tmp_path / "runs", joins=True)
    first, part = prepare(launch), prepare(launch)
    assert part.root.parent == first.root / "hosts"
    assert read_manifest(part.manifest).run_id == part.root.name
    assert [one.root for one in first.parts()] == [part.root]
    assert prepare(replace(launch, joins=False)).root.parent == tmp_path / "runs"


def write_part(layout: RunLayout, ranks: list[int], host: str, **changes: object) -> None:
    layout.root.mkdir(parents=True, exist_ok=True)
    layout.control.mkdir(exist_ok=True)
    write_manifest(layout.manifest, manifest(host=host, **changes))
    for rank in ranks:
        steps = JournalWriter(layout.rank(rank).steps, STEP_COLUMNS)
        row = [0, "train", 0, 5, *[0] * 6, 5, 1, 0, 0, *[-1] * 20]
        steps.append([row[: len(STEP_COLUMNS)]] * (rank + 1))
        steps.close()
    telemetry = JournalWriter(layout.telemetry(host), (Column("time"), Column("cpu")))
    telemetry.append([[1, 50.0]])
    telemetry.close()


def test_a_run_of_two_hosts_is_read_as_one(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    write_part(layout, [2, 3], "b")
    reader = RunReader(tmp_path)
    assert [rank.rank for rank in reader.poll().ranks] == [2, 3]
    write_part(RunLayout(layout.hosts / "a-1-x"), [0, 1], "a")
    run = reader.poll()
    assert [(rank.rank, rank.host, len(rank.steps)) for rank in run.ranks] == [
        (0, "a", 1),
        (1, "a", 2),
        (2, "b", 3),
        (3, "b", 4),
    ]
    assert sorted(run.telemetry) == ["a", "b"]
    assert (run.world, run.manifest.host, run.manifest.notes) == (4, "b", ())


def sampled(layout: RunLayout, host: str, times: list[int], column: str = "cpu") -> None:
    layout.root.mkdir(parents=True, exist_ok=True)
    write_manifest(layout.manifest, manifest(host=host))
    journal = JournalWriter(layout.telemetry(host), (Column("time"), Column(column)))
    journal.append([[time, time / 10] for time in times])
    journal.close()


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        # One takes over from the other, in either order; both sample; one never gets to it.
        ([1, 2, 3], [4, 5], [1, 2, 3, 4, 5]),
        ([4, 5], [1, 2, 3], [1, 2, 3, 4, 5]),
        ([1, 3, 5, 7], [2, 4, 6, 8], [1, 3, 5, 7, 8]),
        ([], [1, 2], [1, 2]),
    ],
)
def test_each_moment_of_a_machine_is_reported_once(
    tmp_path: Path, first: list[int], second: list[int], whole: list[int]
) -> None:
    layout = RunLayout(tmp_path)
    sampled(layout, "a", first)
    sampled(RunLayout(layout.hosts / "a-1-x"), "a", second)
    table = RunReader(tmp_path).poll().telemetry["a"]
    assert table["time"].tolist() == whole
    assert table["cpu"].tolist() == [time / 10 for time in whole]


def test_what_the_next_recorder_does_not_sample_is_unknown(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    sampled(layout, "a", [1, 2])
    sampled(RunLayout(layout.hosts / "a-1-x"), "a", [3], "memory")
    table = RunReader(tmp_path).poll().telemetry["a"]
    assert str(table["cpu"].tolist()) == "[0.1, 0.2, nan]"


def test_two_recorders_that_use_one_number_are_counted_on_and_it_is_said(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    write_part(layout, [0, 1], "a")
    write_part(RunLayout(layout.hosts / "b-1-x"), [0, 1], "b")
    run = RunReader(tmp_path).poll()
    assert [(rank.rank, rank.place, rank.host) for rank in run.ranks] == [
        (0, 0, "a"),
        (1, 1, "a"),
        (2, 2, "b"),
        (3, 3, "b"),
    ]
    assert run.manifest.notes == ("b: rank 0 is also used by another recorder; renumbered to 2",)


def test_each_host_adds_what_it_has_found_of_its_gpus(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    of_a, of_b = ({GPU_DEVICES: {host: [{"prefix": "gpu0", "uuid": host}]}} for host in "ab")
    write_part(layout, [0], "a", profile={**of_a, "nvtx": True})
    write_part(RunLayout(layout.hosts / "b-1-x"), [1], "b", profile={**of_b, "nvtx": False})
    write_part(RunLayout(layout.hosts / "c-1-x"), [2], "c", profile={NOT_SAMPLED: "odd"})
    profile = RunReader(tmp_path).poll().manifest.profile
    assert profile == {GPU_DEVICES: {**of_a[GPU_DEVICES], **of_b[GPU_DEVICES]}, "nvtx": True}


def test_a_run_is_over_once_all_its_recorders_are(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    part = RunLayout(layout.hosts / "b-1-x")
    write_part(layout, [0], "a", status=Status.EXITED, exit_code=0, ended_ns=50)
    write_part(part, [1], "b", status=Status.RUNNING)
    reader = RunReader(tmp_path)
    running = reader.poll().manifest
    assert (running.status, running.exit_code, running.ended_ns) == (Status.RUNNING, None, None)
    over = manifest(host="b", status=Status.EXITED, exit_code=3, ended_ns=60)
    write_manifest(part.manifest, over)
    ended = reader.poll().manifest
    assert (ended.status, ended.exit_code, ended.ended_ns) == (Status.EXITED, 0, 60)
    assert ended.notes == ("b: ended with exit code 3",)


def test_a_part_that_cannot_be_read_now_stays_as_it_was(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    part = RunLayout(layout.hosts / "b-1-x")
    write_part(layout, [0], "a")
    write_part(part, [1], "b")
    reader = RunReader(tmp_path)
    assert len(reader.poll().ranks) == 2
    part.manifest.write_text("{")
    assert len(reader.poll().ranks) == 2


def test_windows_are_asked_of_all_recorders(tmp_path: Path) -> None:
    layout = RunLayout(tmp_path)
    part = RunLayout(layout.hosts / "b-1-x")
    write_part(layout, [0], "a")
    write_part(part, [1], "b")
    request(layout, CAPTURE)
    request(layout, RESIZE, rows=1, columns=2)
    assert [one.kind for one in take_requests(layout)] == [CAPTURE, RESIZE]
    assert [one.kind for one in take_requests(part)] == [CAPTURE]


@pytest.mark.slow
@pytest.mark.subprocess
def test_two_commands_with_one_word_record_one_run(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "perftui_tui", "--headless", "--runs", str(tmp_path)),
                *("--python", sys.executable, str(AGENT), "30", "0.1"),
            ],
            env={**os.environ, JOIN_VARIABLE: "job", "RANK": str(rank), "WORLD_SIZE": "2"},
            stdout=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    assert [process.wait() for process in started] == [0, 0]
    (entry,) = list_runs(tmp_path)
    run = RunReader(entry.root).poll()
    assert [(rank.rank, len(rank.steps)) for rank in run.ranks] == [(0, 30), (1, 30)]
    assert run.manifest.status is Status.EXITED
    assert run.manifest.notes == ()
