"""Where the main thread is, on the Diagnosis screen."""

from __future__ import annotations

from pathlib import Path

from perftui.analysis.model import GapCause
from perftui.diagnosis.main_thread import GapLines, LineShare, MainThread
from perftui_tui.panes.finding_details import details
from perftui_tui.rows import plain
from perftui_tui.snapshot import Phase, Snapshot

MS = 1_000_000

METRIC = LineShare("/home/a/train.py", 8, "slow_metric", "p/train.py:8 slow_metric", 750 * MS)
NOWHERE = LineShare("", -1, "", "torch/nn/a.py:3 forward", 249 * MS)
RARE = LineShare("/home/a/train.py", 12, "main", "p/train.py:12 main", MS)


def shown(snapshot: Snapshot) -> list[str]:
    return [plain(line).rstrip() for line in details(snapshot, None, (), 0, None, 80)]


def snapshot_with(thread: MainThread | None, *gaps: GapLines) -> Snapshot:
    path = Path("run")
    return Snapshot(path, Phase.LIVE, "train.py", 0, main_thread=thread, gap_lines=gaps)


def test_lines_are_listed_with_their_share_and_the_looks_behind_it() -> None:
    thread = MainThread((METRIC, NOWHERE, RARE), 1_000 * MS, 200)
    assert shown(snapshot_with(thread)) == [
        "",
        "Where the main thread is   about 200 looks at the steady steps",
        "    75 %  /home/a/train.py:8  slow_metric",
        "    25 %  no line of yours (torch/nn/a.py:3 forward)",
    ]


def test_gaps_are_told_by_cause() -> None:
    gaps = GapLines(GapCause.PYTHON, 4_000 * MS, MainThread((METRIC,), 750 * MS, 7))
    assert shown(snapshot_with(None, gaps)) == [
        "",
        "Where it was while the GPU idled, python   7 looks, of 4.00 s",
        "   100 %  /home/a/train.py:8  slow_metric",
    ]


def test_a_training_that_nobody_looked_at_shows_nothing() -> None:
    assert shown(snapshot_with(None)) == []
