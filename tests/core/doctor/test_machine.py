"""Rows about what this Linux runs in, and what a process may use of it."""

import os
import shutil
from pathlib import Path

import pytest

from perftui.doctor import machine
from perftui.doctor.gpu import ncu_row, nsys_row
from perftui.doctor.machine import (
    CLOCK,
    clock_row,
    container,
    container_row,
    cores_of,
    cores_row,
    files_row,
    memory_of,
    memory_row,
    shared_memory,
    shared_memory_row,
    wsl_row,
)
from perftui.doctor.row import Row, State
from tests.core.doctor.trees import says, tree

GIB = 1 << 30


ROWS = [
    (cores_row(64, 64, None), State.OK, "64 cores"),
    (cores_row(1, 1, None), State.OK, "1 core"),
    (cores_row(64, 4, None), State.WARN, "64 cores: affinity allows 4"),
    (cores_row(64, 64, 2.5), State.WARN, "64 cores: the cgroup allows 2.5"),
    (cores_row(64, 8, 4.0), State.WARN, "affinity allows 8 and the cgroup allows 4"),
    (cores_row(64, 64, 128.0), State.OK, "64 cores"),
    (memory_row(64 * GIB, None, None, True), State.OK, "64.0 GiB"),
    (memory_row(64 * GIB, 16 * GIB, 2 * GIB, True), State.OK, "allows 16.0 GiB of 64.0 GiB"),
    (memory_row(64 * GIB, 16 * GIB, 15 * GIB, True), State.WARN, "with 15.0 GiB in use"),
    (
        memory_row(64 * GIB, 16 * GIB, None, True),
        State.OK,
        "the cgroup allows 16.0 GiB of 64.0 GiB",
    ),
    (memory_row(64 * GIB, 1 << 62, None, True), State.OK, "64.0 GiB"),
    (memory_row(64 * GIB, None, None, False), State.UNKNOWN, "cgroup v1"),
    (memory_row(0, None, None, True), State.UNKNOWN, "does not report"),
    (shared_memory_row(64 << 20, 64 << 20), State.WARN, "--shm-size"),
    (shared_memory_row(64 * GIB, 60 * GIB), State.OK, "4.0 GiB of 64.0 GiB in use"),
    (shared_memory_row(64 * GIB, 1 << 20), State.WARN, "Remove files"),
    (shared_memory_row(None, 0), State.WARN, "there is no /dev/shm"),
    (files_row(256), State.WARN, "256"),
    *((files_row(soft), State.OK, "") for soft in (1024, -1, 1 << 20)),
    (machine.judged_free(1 << 20), State.FAILS, "1.0 MiB"),
    (machine.judged_free(GIB), State.WARN, "1.0 GiB"),
    (machine.judged_free(9 * GIB), State.OK, "9.0 GiB"),
]


@pytest.mark.parametrize(("row", "state", "words"), ROWS)
def test_what_there_is_is_judged(row: Row, state: State, words: str) -> None:
    assert says(row, state, words)


def test_limits_are_read_from_cgroups_of_version_2(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/step\n",
            "sys/fs/cgroup/job/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
            "sys/fs/cgroup/job/step/memory.max": "1048576\n",
            "sys/fs/cgroup/job/step/memory.current": "524288\n",
            "sys/fs/cgroup/job/step/memory.stat": "anon 1\ninactive_file 24288\n",
            "proc/meminfo": "MemTotal:       65536 kB\nMemFree: 1 kB\n",
        },
    )
    assert cores_of(root) == (os.cpu_count(), len(os.sched_getaffinity(0)), 2.5)
    assert memory_of(root) == (65536 * 1024, 1048576, 500000, True)


def test_of_version_1_the_limit_of_cores_is_read_and_that_of_memory_said_to_be_unknown(
    tmp_path: Path,
) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/\n0::/\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "150000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            "proc/meminfo": "MemTotal: 1024 kB\n",
        },
    )
    assert cores_of(root)[-1] == 1.5
    assert memory_row(*memory_of(root)).state is State.UNKNOWN


def test_shared_memory_that_is_not_there(tmp_path: Path) -> None:
    assert shared_memory(str(tmp_path / "shm")) == (None, 0)
    total, free = shared_memory(str(tmp_path))
    assert total is not None
    assert 0 < free <= total


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({"proc/self/cgroup": "0::/user.slice\n"}, {}, None),
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"proc/1/cgroup": "5:cpu:/kubepods/pod1\n"}, {}, "kubepods"),
        ({}, {"container": "lxc"}, "lxc"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes"),
    ],
)
def test_containers_are_known_by_their_marks(
    tmp_path: Path, files: dict[str, str], environment: dict[str, str], kind: str | None
) -> None:
    assert container(environment, tree(tmp_path, files)) == kind


@pytest.mark.parametrize(
    ("release", "state", "words"),
    [
        ("6.8.0-45-generic", State.OK, "no"),
        ("5.15.167.4-microsoft-standard-WSL2", State.WARN, "--nsys"),
        ("4.4.0-19041-Microsoft", State.WARN, "--set-version"),
        (None, State.UNKNOWN, "does not report"),
    ],
)
def test_wsl_is_known_by_its_kernel(
    tmp_path: Path, release: str | None, state: State, words: str
) -> None:
    files = {} if release is None else {"proc/sys/kernel/osrelease": f"{release}\n"}
    assert says(wsl_row(tree(tmp_path, files)), state, words)


@pytest.mark.parametrize(
    ("source", "state"),
    [("tsc", State.OK), ("kvm-clock", State.OK), ("hpet", State.WARN), (None, State.UNKNOWN)],
)
def test_a_slow_clock_is_reported(tmp_path: Path, source: str | None, state: State) -> None:
    root = tree(tmp_path, {} if source is None else {CLOCK: f"{source}\n"})
    assert clock_row(root).state is state


MOUNTS = (
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "23 22 0:40 / {0}/shared\\040data rw shared:1 - nfs4 server:/data rw\n"
    "24 22 0:41 / {0}/memory rw - tmpfs tmpfs rw\n"
    "25 22 0:42 / {0}/over rw - ext4 /dev/sdb rw\n"
    "26 25 0:43 / {0}/over rw - lustre server rw\n"
    "damaged\n"
)


@pytest.mark.parametrize(
    ("place", "state", "kind"),
    [
        ("home", State.OK, "ext4"),
        ("shared data/runs", State.WARN, "nfs4"),
        ("shared", State.OK, "ext4"),
        ("memory", State.WARN, "tmpfs"),
        ("over/a/b", State.WARN, "lustre"),
    ],
)
def test_runs_on_a_network_disk_or_in_memory(
    tmp_path: Path, place: str, state: State, kind: str
) -> None:
    (tmp_path / place).mkdir(parents=True)
    root = tree(tmp_path / "root", {"proc/self/mountinfo": MOUNTS.format(tmp_path)})
    # A directory of runs that is not there yet lies where the one above it does.
    row = machine.file_system_row(tmp_path / place / ".perftui" / "runs", root)
    assert row.state is state
    assert row.found.startswith(f"{kind}, mounted at ")


def test_without_proc_neither_a_container_nor_a_file_system_is_known(tmp_path: Path) -> None:
    rows = container_row({}, tmp_path), machine.file_system_row(tmp_path, tmp_path)
    assert [row.state for row in rows] == [State.UNKNOWN] * 2


def test_a_run_directory_has_to_be_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = tmp_path / ".perftui" / "runs"
    assert machine.writable_row(runs).state is State.OK
    assert not runs.exists()
    (tmp_path / "file").write_text("")
    assert machine.writable_row(tmp_path / "file" / "runs").state is State.FAILS
    monkeypatch.setattr(os, "access", lambda *_: False)
    row = machine.writable_row(runs)
    assert (row.state, "--runs" in row.advice) == (State.FAILS, True)


def test_programs_of_nvidia_are_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert [row.state for row in (nsys_row(), ncu_row())] == [State.OK, State.OK]


@pytest.mark.subprocess
def test_an_nsys_that_is_too_old_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "nsys"
    fake.write_text("#!/bin/sh\necho NVIDIA Nsight Systems version 2019.5.2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    row = nsys_row()
    assert (row.state, "2019.5.2 is too old" in row.found) == (State.WARN, True)
