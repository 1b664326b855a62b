"""Many ranks read by a real Dask cluster of two workers on this machine."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perftui.facts.ranks.parallel_reading import ClusterError
from perftui.facts.ranks.traced_ranks import read_ranks
from perftui_tui.cli import main
from tests.core.ranks.clusters import WORKERS, two_workers
from tests.core.ranks.conftest import RANKS
from tests.core.ranks.test_read_ranks import numbers, paths, report

distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.subprocess,
    # Dask's own, in its threads and event loops.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster of two workers."""
    with two_workers() as address:
        yield address


@pytest.mark.slow
def test_the_cluster_finds_what_one_process_does(many: Path, scheduler: str) -> None:
    assert report(many, scheduler) == report(many)


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(many: Path, scheduler: str) -> None:
    expected = report(many)
    with distributed.Client(scheduler, set_as_default=False) as client:
        pids = client.run(os.getpid)
    assert len(pids) == WORKERS
    reading = read_ranks(paths(many), scheduler=scheduler)
    first = next(reading)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    found = [first, *reading]
    assert numbers(found) == list(range(RANKS))
    assert [rank for rank, one in found if isinstance(one, str)] == [9]
    assert report(many, scheduler) == expected


def test_workers_read_remote_traces_themselves(
    many: Path, scheduler: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["report", "--json", "--scheduler", scheduler]
    assert main([*command, str(many)]) == 0
    here = capsys.readouterr().out
    assert main([*command, f"file://{many}"]) == 0
    assert capsys.readouterr().out.replace("file://", "") == here


def test_a_scheduler_that_is_not_there_is_an_error(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftui.facts.ranks.parallel_reading.CONNECT_SECONDS", 0.5)
    with pytest.raises(ClusterError, match="cannot be reached"):
        list(read_ranks(paths(many), scheduler="tcp://127.0.0.1:9"))
    with pytest.raises(ClusterError, match="cannot be reached"):
        list(read_ranks(paths(many), scheduler="no address"))


def test_without_dask_it_is_said_what_to_install(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match="perftui\\[cluster\\]"):
        list(read_ranks(paths(many), scheduler="tcp://127.0.0.1:9"))


def test_a_scheduler_needs_a_directory_of_ranks(many: Path) -> None:
    file = many / "rank0.pt.trace.json"
    done = subprocess.run(
        [sys.executable, "-m", "perftui_tui", "report", str(file), "--scheduler", "tcp://x:1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--scheduler reads the traces of a directory of ranks" in done.stderr
