"""Whose the real traces are: what their whole text says, and what is found without reading it."""

import gzip
import re

import pytest

from perftui.trace.rank_files import RankFile, distributed_info, find_ranks
from perftui.trace.recordings import choose_rank
from tests.verify.corpus.collection import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.corpus,
    pytest.mark.skipif(not ROOT.is_dir(), reason="no collection of traces: set PERFTUI_TRACES"),
]

_RANK = re.compile(rb'"distributedInfo":\s*\{[^{}]*?"rank":\s*(\d+)')


def by_name(folder: str) -> dict[str, RankFile]:
    return {file.path.name: file for file in find_ranks(ROOT / folder)}


@pytest.mark.parametrize("folder", ["hta", "kineto", "tracelens"])
def test_ranks_are_those_of_the_whole_text(folder: str) -> None:
    found = find_ranks(ROOT / folder)
    assert found
    for file in found:
        data = file.path.read_bytes()
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        told = _RANK.search(text)
        if file.source == "file":
            assert file.rank == int(told[1])
        elif told is not None:
            # Behind the events of a compressed file: only its name can be had.
            assert file.path.suffix == ".gz"
            assert file.rank in (int(told[1]), None)


@pytest.mark.parametrize(
    ("folder", "name", "rank", "world_size", "backend"),
    [
        ("hta/cpu_only", "rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34, 300, "gloo"),
        ("hta/trace_filter", "sampled_rank-1.json.gz", 1, 128, "nccl"),
        ("hta/negative_queue_length_values_check", "rank0.json.gz", 0, 16, "nccl"),
        ("hta/trace_file_list", "inference_rank_1.json.gz", 1, None, None),
        ("hta/call_stack", "backward_thread.json", 0, None, None),
        ("hta/rank_unavailable", "OLD_9246864b_rank_not_found.json.gz", None, None, "nccl"),
        (
            "hta/cupti_profiler",
            "benchmark_result_924719_1679055439_trace.json.gz",
            None,
            None,
            None,
        ),
    ],
)
def test_what_a_file_says(
    folder: str, name: str, rank: int | None, world_size: int | None, backend: str | None
) -> None:
    file = by_name(folder)[name]
    assert (file.rank, file.world_size) == (rank, world_size)
    assert distributed_info(file.path).get("backend") == backend


def test_missing_ranks_are_said_and_spans_of_one_worker_are_recordings() -> None:
    choice = choose_rank(ROOT / "hta" / "trace_filter", 1)
    assert choice.path.name == "sampled_rank-1.json.gz"
    assert choice.notes[0].startswith("2 ranks (of 128: 2-127 are missing); this is rank 1")
    choice = choose_rank(ROOT / "kineto" / "tb_plugin" / "samples" / "resnet50_num_workers_0")
    assert [file.rank for file in choice.ranks] == [0]
    assert "of 3 recordings" in choice.notes[-1]
