"""Traces of many ranks: whose each file is, what belongs together, and which one is opened."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace import rank_files as ranks
from perftui.trace.model import TraceError
from perftui.trace.rank_files import (
    NameParts,
    RankFile,
    distributed_info,
    find_ranks,
    is_rank_directory,
    parse_name,
)
from perftui.trace.recordings import RankChoice, TraceFiles, choose_rank, find_recordings
from tests.traces.events import cpu

EVENT = cpu("aten::mm", 5, 2)
LONG = {"traceEvents": [EVENT] * 2000}
MOMENT = 1_700_000_000_000


def info(rank: int, world: int = 2) -> dict[str, Any]:
    return {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}}


def write(path: Path, content: dict[str, Any], changed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    if changed:
        os.utime(path, (changed, changed))
    return path


def chosen(directory: Path, rank: int | None = None) -> RankChoice:
    choice = choose_rank(directory, rank)
    assert choice is not None
    return choice


def only(path: Path) -> RankFile:
    (file,) = find_ranks(path)
    return file


@pytest.mark.parametrize(
    ("name", "worker", "rank"),
    [
        ("rank0.json", "rank0", 0),
        ("rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "rank-0", 0),
        ("worker0.1623143089861.pt.trace.json", "worker0", 0),
        ("pool-worker-3_88.1623143089861.pt.trace.json", "pool-worker-3_88", None),
        ("host_1234.1623143089861.pt.trace.json.gz", "host_1234", None),
        ("step_8_rank_3_cpu.json", "step_8_rank_3_cpu", 3),
        ("RANK007.json.gz", "RANK007", 7),
        ("local_rank3_rank11.json", "local_rank3_rank11", 11),
        ("local_rank3.json", "local_rank3", None),
        ("rank0_vs_rank1.json", "rank0_vs_rank1", None),
        ("frank3.json", "frank3", None),
        ("rank20231104.json", "rank20231104", None),
        ("trace.json", "trace", None),
    ],
)
def test_names_are_read(name: str, worker: str, rank: int | None) -> None:
    parts = parse_name(name)
    assert (parts.worker, parts.rank) == (worker, rank)


@pytest.mark.parametrize(
    ("stamp", "time_ns"),
    [
        ("1700000000", 1_700_000_000 * 10**9),
        ("1700000000123", 1_700_000_000_123 * 10**6),
        ("1700000000123456", 1_700_000_000_123_456 * 10**3),
        ("1700000000123456789", 1_700_000_000_123_456_789),
        ("Apr_03_18_51_38.1102", None),
    ],
)
def test_a_time_in_a_name_is_of_its_unit(stamp: str, time_ns: int | None) -> None:
    parts = parse_name(f"host_12.{stamp}.pt.trace.json.gz")
    assert (parts.worker, parts.stamp, parts.time_ns) == ("host_12", stamp, time_ns)


@pytest.mark.parametrize(
    ("changed", "written"),
    [
        ("2024-04-03T18:51:40", "2024-04-03T18:51:38"),
        ("2024-04-03T10:51:40", "2024-04-03T18:51:38"),  # another time zone
        ("2024-02-01T00:00:00", "2023-04-03T18:51:38"),
    ],
)
def test_a_date_has_the_last_year_in_which_it_can_be(changed: str, written: str) -> None:
    changed_ns, written_ns = (
        int(np.datetime64(each).astype("datetime64[ns]").astype(np.int64))
        for each in (changed, written)
    )
    assert parse_name("rank-0.Apr_03_18_51_38.1102.json", changed_ns).time_ns == written_ns


def test_what_is_no_date_is_part_of_the_name() -> None:
    parts = parse_name("rank-0.Foo_03_18_51_38.1102.json", MOMENT * 10**6)
    assert (parts.worker, parts.stamp) == ("rank-0.Foo_03_18_51_38.1102", None)


def test_dates_in_names_order_recordings_of_files_that_were_copied(tmp_path: Path) -> None:
    for hour in (18, 19):
        for rank in (0, 1):
            name = f"rank-{rank}.Apr_03_{hour}_51_38.11{rank}.pt.trace.json"
            write(tmp_path / name, LONG, changed=MOMENT // 1000)
    recordings = find_recordings(find_ranks(tmp_path))
    assert [each.ranks for each in recordings] == [(0, 1), (0, 1)]
    assert chosen(tmp_path).path.name.startswith("rank-0.Apr_03_19")


@given(
    rank=st.integers(0, 999_999),
    before=st.sampled_from(["", "trace_", "step-100.", "gpt2 ", "tp0_"]),
    mark=st.sampled_from(["rank", "rank-", "rank_", "Rank=", "worker"]),
    time=st.none() | st.integers(10**12, 10**13 - 1),
    ending=st.sampled_from([".json", ".json.gz", ".pt.trace.json", ".pt.trace.json.gz"]),
)
def test_a_rank_is_found_wherever_its_name_puts_it(
    rank: int, before: str, mark: str, time: int | None, ending: str
) -> None:
    stamp = "" if time is None else f".{time}"
    parts = parse_name(f"{before}{mark}{rank}{stamp}{ending}")
    assert parts.rank == rank
    assert parts.series == f"{before}{mark}*"
    assert parts.time_ns == (None if time is None else time * 10**6)


@given(st.text())
def test_any_name_can_be_read(name: str) -> None:
    parts = parse_name(name)
    assert name.startswith(parts.worker)
    assert parts.rank is None or str(parts.rank) in parts.worker


def test_directories_of_a_rank() -> None:
    assert is_rank_directory("rank_3")
    assert not is_rank_directory("local_rank3")
    assert not is_rank_directory("rank3_old")


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_what_the_head_says_goes_before_the_name(tmp_path: Path, name: str) -> None:
    write(tmp_path / f"rank7{name}", {**info(3, 16), **LONG})
    file = only(tmp_path)
    assert (file.rank, file.source, file.world_size) == (3, "file", 16)


def test_a_plain_file_is_read_at_its_end_too(tmp_path: Path) -> None:
    deeper = {"a": {"distributedInfo": {"rank": 9}}}
    write(tmp_path / "rank7.json", {**LONG, **info(3), "traceName": "x", **deeper})
    assert (only(tmp_path).rank, only(tmp_path).source) == (3, "file")


@pytest.mark.parametrize(
    "content",
    [
        {"traceEvents": [{**EVENT, "args": {"distributedInfo": {"rank": 3}}}]},
        {"distributedInfo": {"rank": True, "world_size": "2"}, "traceEvents": [EVENT]},
        {"distributedInfo": {"rank": -1}, "traceEvents": [EVENT]},
        {"distributedInfo": [3], "traceEvents": [EVENT]},
        {"distributedInfo": {"backend": "nccl"}, "traceEvents": [EVENT]},
    ],
)
def test_what_is_no_rank_leaves_it_to_the_name(tmp_path: Path, content: dict[str, Any]) -> None:
    write(tmp_path / "rank7.json", content)
    file = only(tmp_path)
    assert (file.rank, file.source, file.world_size) == (7, "name", None)


def test_a_compressed_file_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write(tmp_path / "rank7.json.gz", {"traceEvents": [EVENT] * 60_000, **info(3)})
    taken = 0

    class Counted(ranks.Source):
        def pieces(self) -> Any:
            nonlocal taken
            for piece in super().pieces():
                taken += len(piece)
                yield piece

    monkeypatch.setattr(ranks, "Source", Counted)
    assert distributed_info(whole) == {}
    assert 0 < taken < 600_000 < len(gzip.decompress(whole.read_bytes()))
    assert only(tmp_path).rank == 7


def test_a_cut_off_file_goes_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path / "rank4.json", {**LONG, **info(3)})
    path.write_bytes(path.read_bytes()[:-9])
    assert (only(tmp_path).rank, only(tmp_path).source) == (4, "name")


def test_the_lowest_rank_is_opened_and_missing_ones_are_said(tmp_path: Path) -> None:
    for rank in (3, 1, 2, 7):
        write(tmp_path / f"{rank}.json", {**info(rank, 10), **LONG})
    choice = chosen(tmp_path)
    assert choice.path.name == "1.json"
    assert [file.rank for file in choice.ranks] == [1, 2, 3, 7]
    assert choice.notes == (
        "4 ranks (of 10: 0, 4-6, 8-9 are missing); this is rank 1, --rank N opens another",
    )
    assert chosen(tmp_path, 7).path.name == "7.json"
    with pytest.raises(TraceError, match="holds no trace of rank 8; there are 1-3, 7 of 10"):
        choose_rank(tmp_path, 8)


def test_ranks_by_name_are_said_to_be(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", LONG)
    assert chosen(tmp_path).notes == (
        "2 ranks; this is rank 0 by the file's name, --rank N opens another",
    )


def test_each_rank_can_have_a_directory(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank_{rank}" / "trace.json", LONG)
    choice = chosen(tmp_path, 1)
    assert choice.path == tmp_path / "rank_1" / "trace.json"
    assert len(choice.ranks) == 2


def test_spans_of_workers_are_recordings_and_the_newest_complete_is_opened(tmp_path: Path) -> None:
    for span, workers in ((0, 2), (60_000, 2), (120_000, 1)):
        for worker in range(workers):
            name = f"worker{worker}.{MOMENT + span + worker}.pt.trace.json.gz"
            write(tmp_path / name, LONG)
    recordings = find_recordings(find_ranks(tmp_path))
    assert [len(each.files) for each in recordings] == [1, 2, 2]
    choice = chosen(tmp_path)
    assert choice.path.name == f"worker0.{MOMENT + 60_000}.pt.trace.json.gz"
    heading, others = choice.notes
    assert heading.startswith("2 ranks; this is rank 0")
    assert "the newest complete of 3 recordings" in others
    assert f"worker0.{MOMENT + 120_000}.pt.trace.json.gz" in others
    assert f"worker0.{MOMENT}.pt.trace.json.gz" in others


def test_a_training_started_again_is_another_recording(tmp_path: Path) -> None:
    for start, pid in ((0, 100), (60_000, 200)):
        for rank in (0, 1):
            name = f"host_{pid + rank}.{MOMENT + start + rank}.pt.trace.json"
            write(tmp_path / name, {**info(rank), **LONG})
    recordings = find_recordings(find_ranks(tmp_path))
    assert [[file.name.worker for file in each.files] for each in recordings] == [
        ["host_200", "host_201"],
        ["host_100", "host_101"],
    ]
    assert not any(each.duplicates for each in recordings)


def test_steps_in_names_are_recordings(tmp_path: Path) -> None:
    for step in (100, 200):
        for rank in (0, 1):
            write(tmp_path / f"step{step}_rank{rank}.json", LONG, changed=step)
    choice = chosen(tmp_path)
    assert choice.path.name == "step200_rank0.json"
    assert "the newest of 2 recordings" in choice.notes[1]


def test_two_files_of_one_rank_are_said_with_both_names(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", {**info(0), **LONG}, changed=10)
    write(tmp_path / "rank0 copy.json", {**info(0), **LONG}, changed=20)
    write(tmp_path / "rank1.json", {**info(1), **LONG}, changed=30)
    choice = chosen(tmp_path)
    assert choice.path.name == "rank0 copy.json"
    claim = "2 files claim rank 0, the first is opened: rank0 copy.json, rank0.json"
    assert claim in choice.notes


def test_many_doubled_ranks_are_counted(tmp_path: Path) -> None:
    for rank in range(9):
        for name in (f"{rank}a.json", f"{rank}b.json"):
            write(tmp_path / name, {**info(rank, 9), **LONG})
    notes = chosen(tmp_path).notes
    assert len(notes) == 6
    assert notes[-1] == "9 ranks in all are claimed by more than one file"


def test_workers_that_claim_one_rank_at_one_time_are_said(tmp_path: Path) -> None:
    for pid in (100, 101):
        write(tmp_path / f"host_{pid}.{MOMENT + pid}.pt.trace.json", {**info(0, 1), **LONG})
    (note,) = chosen(tmp_path).notes[1:]
    assert "2 files claim rank 0" in note
    assert "host_100" in note
    assert "host_101" in note


def test_a_doubtful_number_of_ranks_is_said(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {**info(0, 2), **LONG})
    write(tmp_path / "b.json", {**info(1, 4), **LONG})
    notes = chosen(tmp_path).notes
    assert "the files disagree about the number of ranks: 2 and 4" in notes
    assert not any("missing" in note for note in notes)
    (tmp_path / "a.json").unlink()
    write(tmp_path / "b.json", {**info(5, 4), **LONG})
    assert "rank 5 is claimed, of 4 ranks" in chosen(tmp_path).notes


def test_without_ranks_the_newest_is_opened(tmp_path: Path) -> None:
    write(tmp_path / "a.json", LONG, changed=20)
    write(tmp_path / "b.json", LONG, changed=10)
    choice = chosen(tmp_path)
    assert choice.path.name == "a.json"
    assert choice.ranks == ()
    assert choice.notes == (f"the newest of 2 traces in {tmp_path}",)
    with pytest.raises(TraceError, match="records its rank; name the file"):
        choose_rank(tmp_path, 0)


def test_workers_without_ranks_are_said(tmp_path: Path) -> None:
    for pid in (100, 101):
        write(tmp_path / f"host_{pid}.{MOMENT + pid}.pt.trace.json", LONG)
    (note,) = chosen(tmp_path).notes
    assert note.startswith(
        "2 traces were recorded together, and none records its rank; this is host_"
    )


def test_a_single_trace_needs_no_words_and_an_empty_directory_has_none(tmp_path: Path) -> None:
    assert choose_rank(tmp_path) is None
    write(tmp_path / "a.json", {**info(0, 1), **LONG})
    assert chosen(tmp_path).notes == ()


def rank_file(rank: int | None, world: int | None, worker: str = "", time: int = 0) -> RankFile:
    parts = NameParts(worker or str(rank), str(time) if time else None, None, rank, "")
    path = Path(f"/x/{worker}.{rank}.{time}")
    return RankFile(path, rank, "file", parts, world, time * 10**9, 1)


@given(st.sets(st.integers(0, 40), min_size=1), st.integers(1, 30))
def test_missing_ranks_are_those_of_the_world_that_no_file_has(there: set[int], size: int) -> None:
    recording = TraceFiles(tuple(rank_file(rank, size) for rank in there))
    missing = [rank for gap in recording.missing for rank in gap]
    assert missing == [rank for rank in range(size) if rank not in there]


WORKERS = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(WORKERS, st.none() | st.integers(0, 3), st.integers(0, 99)), unique=True))
def test_every_file_is_in_one_recording(found: list[tuple[str, int | None, int]]) -> None:
    files = [rank_file(rank, None, worker, time) for worker, rank, time in found]
    recordings = find_recordings(files)
    assert sorted(str(file.path) for each in recordings for file in each.files) == sorted(
        str(file.path) for file in files
    )
    for each in recordings:
        times: dict[str, str] = {}
        for file in each.files:
            if file.name.stamp is not None:
                assert times.setdefault(file.name.worker, file.name.stamp) == file.name.stamp
