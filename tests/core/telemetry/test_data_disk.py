"""Where a training reads its data, and what the disk or the NFS mount there does."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.data_disk import (
    DATA_DISK_COLUMNS,
    DIRECTORY,
    OPEN_FILES,
    DataDisk,
    DataDiskSource,
    DataMount,
    DataPlace,
    NfsCounters,
    NfsSource,
    counted_disk,
    described,
    files_read,
    parse,
)
from perftui.telemetry.files import Mount, mount_holding, mounts_in
from perftui.telemetry.processes import Roles
from tests.telemetry_given import names_of, running, sampled, write

MOUNTS = (
    "22 1 0:21 / /proc rw - proc proc rw\n"
    "27 1 259:2 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
    "28 27 259:5 / /data rw - xfs /dev/nvme0n1p5 rw\n"
    "29 27 253:0 / /my\\040sets rw master:1 - ext4 /dev/mapper/vg-sets rw\n"
    "30 27 0:44 / /nfs rw - nfs4 server:/export rw\n"
)


class Given:
    """A machine with an NVMe disk of two partitions and a mapped device, and a process 5."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.proc = write(root / "proc", {"5/mountinfo": MOUNTS, "5/fdinfo/9": ""})
        self.sys = write(
            root / "sys",
            {
                "devices/pci/nvme/nvme0n1/nvme0n1p2/partition": "2\n",
                "devices/pci/nvme/nvme0n1/nvme0n1p5/partition": "5\n",
                "devices/virtual/block/dm-0/dm/name": "vg-sets\n",
            },
        )
        (root / "sys" / "dev" / "block").mkdir(parents=True)
        (root / "sys" / "block").mkdir()
        self.device("259:2", "devices/pci/nvme/nvme0n1/nvme0n1p2")
        self.device("259:5", "devices/pci/nvme/nvme0n1/nvme0n1p5")
        self.device("253:0", "devices/virtual/block/dm-0")
        (root / "sys" / "block" / "dm-0").symlink_to("../devices/virtual/block/dm-0")
        (root / "proc" / "5" / "fd").mkdir()
        (root / "proc" / "5" / "exe").symlink_to("/opt/conda/bin/python3.10")
        (root / "proc" / "5" / "cwd").symlink_to("/home/someone")
        self.count(0)

    def device(self, number: str, place: str) -> None:
        (self.root / "sys" / "dev" / "block" / number).symlink_to(f"../../{place}")

    def count(self, count: int) -> None:
        rows = (f"259 0 {name}{f' {count}' * 11}\n" for name in ("nvme0n1", "nvme0n1p5", "dm-0"))
        write(self.root / "proc", {"diskstats": "".join(rows)})

    def opens(self, file: int, path: str, flags: str = "0100000") -> None:
        (self.root / "proc" / "5" / "fd" / str(file)).symlink_to(path)
        write(self.root / "proc", {f"5/fdinfo/{file}": f"pos:\t0\nflags:\t{flags}\nmnt_id:\t27\n"})

    def place(self) -> DataPlace:
        return DataPlace(5, lambda: Roles(ranks=frozenset([5])), self.proc)


@pytest.fixture
def given_machine(tmp_path: Path) -> Given:
    return Given(tmp_path)


def test_files_of_the_data_are_those_open_for_reading_only(given_machine: Given) -> None:
    given_machine.opens(0, "/data/stdin")
    given_machine.opens(3, "/data/train/a.bin")
    given_machine.opens(4, "/data/log.txt", "0100001")
    given_machine.opens(5, "/data/index.db", "0100002")
    given_machine.opens(6, "/data/train", "0200000")
    given_machine.opens(7, "pipe:[8]")
    given_machine.opens(8, "/data/gone.bin (deleted)")
    given_machine.opens(10, "/opt/conda/lib/libcudart.so")
    given_machine.opens(11, "/venv/lib/python3.10/site-packages/torch/lib/x.so")
    given_machine.opens(12, "/dev/shm/torch_1")  # noqa: S108 - no file is made
    given_machine.opens(13, "/data/cut.bin", "cut")
    assert files_read(5, given_machine.proc) == ["/data/train/a.bin"]
    assert files_read(6, given_machine.proc) == []


def test_the_disk_follows_the_files_and_not_the_directory(given_machine: Given) -> None:
    place = given_machine.place()
    source = DataDiskSource(place, given_machine.proc, given_machine.sys)
    assert names_of(source) == [column.name for column in DATA_DISK_COLUMNS]
    source.sample(0.0)
    assert source.found == DataDisk("nvme0n1", "/", "ext4", DIRECTORY)
    given_machine.opens(3, "/my sets/a.bin")
    given_machine.count(1000)
    # The disk is another: what it has done since is not known.
    assert set(sampled(source, 100.0).values()) == {None}
    assert source.found == DataDisk("vg-sets (dm-0)", "/my sets", "ext4", OPEN_FILES)
    given_machine.count(1500)
    assert sampled(source, 102.0) == {
        "data_disk.read": 250 * 512,
        "data_disk.write": 250 * 512,
        "data_disk.utilization": 25.0,
        "data_disk.await": 1.0,
        "data_disk.queue": 0.25,
    }


def test_the_mount_on_which_most_files_were_seen_is_the_one(given_machine: Given) -> None:
    place = given_machine.place()
    given_machine.opens(3, "/my sets/tokenizer.json")
    for turn in range(3):
        found = place.search(100.0 * turn)
        assert found is not None
        given_machine.opens(10 + 2 * turn, f"/data/{turn}.bin")
        given_machine.opens(11 + 2 * turn, f"/data/{turn}.idx")
    assert found.mount.point == "/data"
    # All are closed: it stays what it was.
    for file in Path(given_machine.proc, "5", "fd").iterdir():
        file.unlink()
    found = place.search(1000.0)
    assert (found.mount.point, found.found_by) == ("/data", OPEN_FILES)


def test_data_on_a_file_system_without_a_disk_is_told_and_not_counted(given_machine: Given) -> None:
    source = DataDiskSource(given_machine.place(), given_machine.proc, given_machine.sys)
    given_machine.opens(3, "/nfs/a.bin")
    for now in (0.0, 1.0):
        assert set(sampled(source, now).values()) == {None}
    assert source.found == DataDisk(None, "/nfs", "nfs4", OPEN_FILES)


def test_devices_resolve_to_what_is_counted(given_machine: Given) -> None:
    def disk(place: str, counted: set[str]) -> str | None:
        mount = mount_holding(place, mounts_in(MOUNTS.encode()))
        assert mount is not None
        return counted_disk(mount, counted, given_machine.sys)

    everything = {"nvme0n1", "nvme0n1p5", "dm-0"}
    assert disk("/data/x", everything) == "nvme0n1"
    assert disk("/my sets", everything) == "dm-0"
    assert disk("/nfs/x", everything) is None
    assert disk("/proc/5", everything) is None
    write(Path(given_machine.sys), {"block/dm-0/slaves/nvme0n1/x": ""})
    assert disk("/my sets", {"nvme0n1"}) == "nvme0n1"
    write(Path(given_machine.sys), {"block/dm-0/slaves/sda/x": ""})
    assert disk("/my sets", {"nvme0n1"}) is None
    assert described("nvme0n1", given_machine.sys) == "nvme0n1"


def test_of_several_mounts_the_longest_and_last_holds_a_path() -> None:
    mounts = [Mount(place, "ext4", number) for place, number in (
        ("/", "1:0"), ("/data", "1:1"), ("/data/sub", "1:2"), ("/data", "1:3"))]  # fmt: skip

    def number(path: str) -> str | None:
        mount = mount_holding(path, mounts)
        return mount.number if mount else None

    assert [number(path) for path in ("/x", "/data", "/data/y", "/data/sub/z", "/database")] == [
        "1:0",
        "1:3",
        "1:3",
        "1:2",
        "1:0",
    ]
    assert number("relative") is None


@given(st.binary())
def test_any_file_is_read_as_mounts_or_nothing(content: bytes) -> None:
    for mount in mounts_in(content):
        assert isinstance(mount, Mount)


PLACES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1).map(
    "/".__add__
)


@given(st.lists(PLACES, max_size=5))
def test_any_place_of_a_mount_is_reported_as_it_is(places: list[str]) -> None:
    def escaped(place: str) -> bytes:
        return b"".join(
            b"\\%03o" % byte if byte in b" \t\n\\" or byte < 33 or byte > 126 else bytes([byte])
            for byte in place.encode()
        )

    lines = b"".join(
        b"1 1 8:%d / %s rw shared:1 master:2 - ext4 /dev/x rw\n" % (number, escaped(place))
        for number, place in enumerate(places)
    )
    assert [(one.number, one.point) for one in mounts_in(lines)] == [
        (f"8:{number}", place) for number, place in enumerate(places)
    ]


@pytest.mark.subprocess
def test_a_file_that_a_real_process_holds_is_found(tmp_path: Path) -> None:
    data = tmp_path / "set.bin"
    data.write_bytes(b"data")
    source = f"file = open({str(data)!r}, 'rb'); open({str(tmp_path / 'held')!r}, 'w').close()"
    with running(f"{source}; import time; time.sleep(60)") as (pid,):
        while not (tmp_path / "held").exists():
            os.sched_yield()
        assert files_read(pid) == [str(data)]
        found = DataPlace(pid, Roles).search(0.0)
    assert found.found_by == OPEN_FILES
    device = data.stat().st_dev
    if not found.mount.number.startswith("0:"):
        assert found.mount.number == f"{os.major(device)}:{os.minor(device)}"


def mountstats(place: str, read: int, written: int, requests: int, time: int) -> str:
    return f"""device proc mounted on /proc with fstype proc
device server:/export mounted on {place} with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576
\tage:\t100
\tcaps:\tcaps=0x3fffdf,wtmult=512
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t1 2 3 4
\tbytes:\t1 2 3 4 {read} {written} 7 8
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 0 0 1 0 0 24 24 0 24 0 2 0 0
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: {requests} 9 0 5 6 7 8 {time} 0
\t       WRITE: {requests} 9 0 5 6 7 8 {3 * time}
\tREADDIR: 5 5 5 5 5 5 5 5 0
"""


class Found(DataPlace):
    """Data at a place that is known."""

    def __init__(self, kind: str, place: str) -> None:
        self.found = DataMount(Mount(place, kind, "0:44", "server:/export"), OPEN_FILES)

    def search(self, now: float) -> DataMount | None:  # noqa: ARG002 - it is known at all times
        return self.found


def test_rates_are_those_of_the_mount_with_the_data(tmp_path: Path) -> None:
    proc = write(tmp_path, {"self/mountstats": mountstats("/my\\040sets", 0, 0, 0, 0)})
    source = NfsSource(Found("nfs4", "/my sets"), proc)
    assert set(sampled(source, 0.0).values()) == {None}
    other = mountstats("/other", 10**9, 0, 0, 0)
    write(tmp_path, {"self/mountstats": other + mountstats("/my\\040sets", 8000, 200, 5, 50)})
    assert sampled(source, 2.0) == {"nfs.read": 4000.0, "nfs.write": 100.0, "nfs.await": 20.0}
    row = sampled(source, 3.0)
    assert (row["nfs.read"], row["nfs.await"]) == (0.0, None)
    write(tmp_path, {"self/mountstats": b"cut"})
    assert set(sampled(source, 4.0).values()) == {None}


def test_data_elsewhere_is_none_of_nfs(tmp_path: Path) -> None:
    proc = write(tmp_path, {"self/mountstats": mountstats("/nfs", 0, 0, 0, 0)})
    source = NfsSource(Found("ext4", "/"), proc)
    for now in (0.0, 1.0):
        assert [*sampled(source, now).values()] == [None] * 3


def test_data_that_turns_out_to_be_on_another_mount_makes_no_jump(tmp_path: Path) -> None:
    both = mountstats("/a", 0, 0, 0, 0) + mountstats("/b", 10**9, 0, 0, 0)
    place = Found("nfs4", "/a")
    source = NfsSource(place, write(tmp_path, {"self/mountstats": both}))
    source.sample(0.0)
    place.found = Found("nfs4", "/b").found
    assert [*sampled(source, 1.0).values()] == [None] * 3
    assert sampled(source, 2.0)["nfs.read"] == 0.0


@given(st.binary(), st.lists(st.integers(0, 2**60), min_size=4, max_size=4))
def test_whatever_stands_before_it_a_mount_is_read(before: bytes, counts: list[int]) -> None:
    content = before + b"\n" + mountstats("/nfs", *counts).encode()
    read, written, requests, time = counts
    assert parse(content)["/nfs"] == NfsCounters(read, written, 2 * requests, 4 * time)


@given(st.binary(), st.integers(0, 900))
def test_a_file_that_is_cut_is_read_as_far_as_it_goes(after: bytes, end: int) -> None:
    found = parse(mountstats("/nfs", 1, 2, 3, 4).encode()[:end] + after)
    assert all(isinstance(one, NfsCounters) for one in found.values())
