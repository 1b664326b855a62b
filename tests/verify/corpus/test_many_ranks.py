"""64 ranks made from a real trace are the same in one process, in several and on a cluster."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.core.ranks.clusters import two_workers
from tests.core.ranks.test_read_ranks import in_processes, report
from tests.traces.real_ranks import read_real, write_real_ranks
from tests.verify.corpus.collection import ROOT

SOURCE = ROOT / "hta" / "nccl_parser_config" / "nccl_data.json.gz"
RANKS = 64
LATE, LATE_NS = 41, 1_500_000
REDUCES = 5
"""All-reduces in each step of the trace."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.corpus,
    pytest.mark.subprocess,
    pytest.mark.skipif(not SOURCE.is_file(), reason="no collection of traces: set PERFTUI_TRACES"),
    # Dask's own, in its threads and event loops.
    pytest.mark.filterwarnings("ignore"),
]


def off(rank: int) -> int:
    """By how many ns the clock of a rank is ahead: up to 2 ms, either way."""
    return rank * 1_234_567 % 4_000_001 - 2_000_000 if rank else 0


def late(rank: int) -> int:
    """By how many ns a rank comes late: one by much, the others by up to 0.1 ms."""
    return LATE_NS if rank == LATE else rank * 37 % 10 * 10_000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    real = read_real(SOURCE, shortest=30_000)
    return write_real_ranks(real, tmp_path_factory.mktemp("real") / "ranks", RANKS, off, late)


@pytest.fixture(scope="module")
def in_turn(many: Path) -> Any:
    """The report, with the traces read one after the other."""
    with pytest.MonkeyPatch.context() as patch:
        in_processes(patch, 1)
        return report(many)


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    pytest.importorskip("distributed")
    with two_workers() as address:
        yield address


def test_the_late_rank_is_the_one_that_the_others_wait_for(in_turn: Any) -> None:
    rows = in_turn["ranks"]["rows"]
    assert [row["rank"] for row in rows] == list(range(RANKS))
    caused = {row["rank"]: row["caused"] for row in rows if row["caused"]}
    assert list(caused) == [LATE]
    most = REDUCES * sum(LATE_NS - late(rank) for rank in range(RANKS) if rank != LATE)
    # Where a rank computes meanwhile, waiting costs it nothing.
    assert 0.8 * most < caused[LATE] <= most


def test_processes_find_the_same(many: Path, in_turn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    in_processes(monkeypatch)
    assert report(many) == in_turn


def test_a_cluster_finds_the_same_though_a_worker_is_killed(
    many: Path, in_turn: Any, scheduler: str
) -> None:
    import distributed

    with distributed.Client(scheduler, set_as_default=False) as client:
        pids = client.run(os.getpid)
    told: list[int] = []

    def kill_at_first(done: int, _: int) -> None:
        if not told:
            os.kill(next(iter(pids.values())), signal.SIGKILL)
        told.append(done)

    assert report(many, scheduler, kill_at_first) == in_turn
    assert told == list(range(2, RANKS + 1))
