"""The NFS mount that holds the data set."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perftui.telemetry.data_disk import (
    OPEN_FILES,
    DataPlace,
    NfsCounters,
    NfsSource,
    Place,
    parse,
)
from perftui.telemetry.files import Mount
from tests.telemetry_given import sampled, write


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
        self.found = Place(Mount(place, kind, "0:44", "server:/export"), OPEN_FILES)

    def search(self, now: float) -> Place | None:  # noqa: ARG002 - it is known at all times
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


def test_without_a_mount_there_is_a_reason(tmp_path: Path) -> None:
    source = NfsSource(Found("ext4", "/"), str(tmp_path))
    assert source.columns == ()
    assert source.sample(0.0) == []
    assert source.missing == {"nfs": "no NFS mount"}


@given(st.binary(), st.lists(st.integers(0, 2**60), min_size=4, max_size=4))
def test_whatever_stands_before_it_a_mount_is_read(before: bytes, counts: list[int]) -> None:
    content = before + b"\n" + mountstats("/nfs", *counts).encode()
    read, written, requests, time = counts
    assert parse(content)["/nfs"] == NfsCounters(read, written, 2 * requests, 4 * time)


@given(st.binary(), st.integers(0, 900))
def test_a_file_that_is_cut_is_read_as_far_as_it_goes(after: bytes, end: int) -> None:
    found = parse(mountstats("/nfs", 1, 2, 3, 4).encode()[:end] + after)
    assert all(isinstance(one, NfsCounters) for one in found.values())
