"""Where the main thread is, on the Diagnosis screen."""

from __future__ import annotations

from perftui.analysis.model import GapCause
from perftui.facts.data_loader.batch_place import WorkerLines, loader_lines
from perftui.facts.gpu.gaps import GapLines, gap_lines
from perftui.facts.gpu.host_waits import SyncCall, SyncCalls, syncs
from perftui.facts.source.lines import LinesByTime, LineShare, main_thread
from perftui_tui.look.rows import plain
from perftui_tui.reading.snapshot import Snapshot
from perftui_tui.screens.diagnosis.finding import details
from tests.facts_given import knowing

MS = 1_000_000

METRIC = LineShare("/home/a/train.py", 8, "slow_metric", "p/train.py:8 slow_metric", 750 * MS)
NOWHERE = LineShare("", -1, "", "torch/nn/a.py:3 forward", 249 * MS)
RARE = LineShare("/home/a/train.py", 12, "main", "p/train.py:12 main", MS)


def shown(snapshot: Snapshot) -> list[str]:
    return [plain(line).rstrip() for line in details(snapshot, None, (), 0, 80)]


def snapshot_with(thread: LinesByTime | None, *gaps: GapLines) -> Snapshot:
    return knowing({main_thread: thread, gap_lines: gaps})


def test_lines_are_listed_with_their_share_and_the_samples_behind_it() -> None:
    thread = LinesByTime((METRIC, NOWHERE, RARE), 1_000 * MS, 200)
    assert shown(snapshot_with(thread)) == [
        "Where the main thread is   about 200 samples in the steady steps",
        "    75 %  /home/a/train.py:8  slow_metric",
        "    25 %  no line of yours (torch/nn/a.py:3 forward)",
    ]


def test_gaps_are_told_by_cause() -> None:
    gaps = GapLines(GapCause.PYTHON, 4_000 * MS, LinesByTime((METRIC,), 750 * MS, 7))
    assert shown(snapshot_with(None, gaps)) == [
        "Where the main thread was while the GPU idled, python   7 samples, of 4.00 s",
        "   100 %  /home/a/train.py:8  slow_metric",
    ]


def test_workers_are_told_apart_with_how_busy_they_are() -> None:
    workers = WorkerLines(LinesByTime((METRIC,), 750 * MS, 42), busy=0.95, collate=0.0)
    snapshot = knowing({loader_lines: workers})
    assert shown(snapshot) == [
        "Where the workers make batches   95 % of their time, about 42 samples",
        "   100 %  /home/a/train.py:8  slow_metric",
    ]


def test_calls_that_wait_are_listed_by_line() -> None:
    call = SyncCall("item", "/home/a/train.py", 31, "main", 6, 9 * MS, 3 * MS)
    on_gpu = knowing({syncs: SyncCalls((call,), 3, on_gpu=True)})
    assert shown(on_gpu) == [
        "Calls that wait for the GPU   over 3 profiled steps",
        "     2.0 a step  3.00 ms  item  /home/a/train.py:31",
    ]
    without = knowing({syncs: SyncCalls((), 3, on_gpu=False)})
    assert shown(without) == [
        "Calls that would wait for a GPU   over 3 profiled steps",
        "  this training used no GPU, so nothing waited",
        "  none",
    ]


def test_a_training_that_nobody_looked_at_shows_nothing() -> None:
    assert shown(snapshot_with(None)) == []
