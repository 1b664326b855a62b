"""A finding in full: what it costs, and how much its figures rest on."""

from pathlib import Path

import pytest

from perftui.analysis.model import GapCause
from perftui.diagnosis.model import Abstention, Confidence, Diagnosis, Figure, Finding, Severity
from perftui.facts.data_loader.batch_place import WorkerLines, loader_lines
from perftui.facts.gpu.host_waits import SyncCall, SyncCalls, syncs
from perftui.facts.gpu.idle import GapLines, gap_lines
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, LineShare, main_thread
from perftui.fixes.option import Patch, Risk
from perftui_tui.dialogs.choice import labelled
from perftui_tui.dialogs.experiment import diff_rows, risk
from perftui_tui.look.rows import plain, safe
from perftui_tui.reading.snapshot import Phase, Snapshot
from perftui_tui.reading.view import RunView
from perftui_tui.screens.diagnosis import details, listing
from tests.facts_given import knowing
from tests.tui.driving import opened, settled, text_of, until
from tests.tui.recorded import NOW, write_gpu_run, write_run

MS = 1_000_000


def said(finding: Finding) -> str:
    """The details of ``finding`` in a diagnosis that had 500 steady steps of a run to look at."""
    diagnosis = Diagnosis((finding,), steady_steps=500)
    snapshot = Snapshot(Path("run"), Phase.LIVE, "train.py", 0, diagnosis=diagnosis)
    return "\n".join(plain(line) for line in details(snapshot, finding, (), 0, 80))


def test_a_cost_is_said_to_rest_on_the_steps_it_rests_on() -> None:
    text = said(
        Finding(
            "sync-bound",
            Severity.WARNING,
            "The GPU idles.",
            cost_ns=12 * MS,
            step_ns=120 * MS,
            confidence=Confidence.LOW,
            steps=2,
        )
    )
    assert "12.0 ms of each 120 ms step (10 %)" in text
    assert "confidence low  (from 2 steady steps)" in text
    text = said(
        Finding("sync-bound", Severity.WARNING, "It idles.", cost_ns=350 * MS, step_ns=3500 * MS)
    )
    assert "350 ms of the recorded 3.50 s (10 %)" in text
    assert "(from the whole trace)" in text
    assert "each" not in text.partition("What to do")[0]
    text = said(Finding("memory-pressure", Severity.WARNING, "It is nearly full."))
    assert "(from" not in text


def test_values_stand_in_one_column_and_a_name_once() -> None:
    facts = (Figure("steady steps", 2, "count"), Figure("launches into an empty queue", 76, "%"))
    lines = said(Finding("launch-bound", Severity.WARNING, "It idles.", facts)).splitlines()
    short, long = (line for line in lines if line.startswith(("  steady", "  launches")))
    assert short.index(" 2") == long.index(" 76 %") == len("  launches into an empty queue")
    one, other = (Place(file="/p/data.py", line=line) for line in (6, 8))
    facts = (
        Figure("num_workers", 2, "count"),
        Figure("making batches", 70, "%", place=one),
        Figure("making batches", 20, "%", place=other),
    )
    lines = said(Finding("data", Severity.WARNING, "It waits.", facts)).splitlines()
    at = next(at for at, line in enumerate(lines) if "making batches" in line)
    assert lines[at].split() == ["making", "batches", "70", "%", "/p/data.py:6"]
    assert lines[at + 1].split() == ["20", "%", "/p/data.py:8"]
    assert lines[at + 1].index("20 %") == lines[at].index("70 %")


def test_a_diff_shows_tabs_as_the_columns_they_reach() -> None:
    patch = Patch(Path("train.py"), b"if x:\n\ty = 1\t# a\n", b"if x:\n\ty = 2\t# a\n")
    lines = [plain(safe(line)) for line in diff_rows(patch)]
    assert "-        y = 1   # a" in lines
    assert "+        y = 2   # a" in lines


def test_a_fix_that_is_refused_is_not_said_to_have_no_risk(tmp_path: Path) -> None:
    snapshot = RunView(write_run(tmp_path, cpu_count=1), lambda: NOW, lambda: False).read()
    top = snapshot.diagnosis.top
    lines = [plain(line) for line in details(snapshot, top, snapshot.fixes(top), 0, 80)]
    assert "     no core is free for more workers (of 1 core)" in lines
    assert not any("Risk" in line for line in lines)


def test_risks_are_told_whole_on_a_narrow_screen() -> None:
    risks = tuple(Risk)
    rows = [plain(line) for line in labelled(risk(risks, "     "), 50)]
    assert rows[0].startswith("     Risk  ")
    assert all(len(line) <= 50 for line in rows)
    told = " ".join(line.replace("Risk", "").strip() for line in rows)
    assert told == ", ".join(risk.value for risk in risks)


def test_rules_that_could_not_judge_are_named_and_speak_for_no_others() -> None:
    """The Overview says of the same picture that nothing known crosses its limit."""
    diagnosis = Diagnosis((), (Abstention("memory-pressure", "no sample"),), steady_steps=30)
    snapshot = Snapshot(Path("t.json"), Phase.TRACE, "t.json", 0, diagnosis=diagnosis)
    lines = [plain(line).strip() for line in listing(snapshot, 0, 80)]
    assert lines == ["nothing was found", "", "1 rule could not judge: see the end of the details"]
    diagnosis = Diagnosis(abstentions=(Abstention("sync-bound", "no window"),), steady_steps=5)
    snapshot = Snapshot(Path("run"), Phase.LIVE, "train.py", 0, diagnosis=diagnosis)
    rows = [plain(line) for line in details(snapshot, None, (), 0, 80)]
    assert rows[0] == "Not judged, and why"


@pytest.mark.slow
async def test_a_large_screen_shows_where_the_time_goes_below_the_findings(tmp_path: Path) -> None:
    run, _ = write_gpu_run(tmp_path)
    async with opened(run, (200, 50)) as (app, pilot):
        await pilot.press("4")
        shown = await settled(pilot)
        for words in ("Findings, by what they cost", "Mean step", "data loader wait", "Top ops"):
            assert words in shown
        assert "conv_kernel" in shown
        await pilot.resize_terminal(120, 40)
        await until(pilot, lambda: "Top ops" not in text_of(app), "no panes below the findings")


METRIC = LineShare("/home/a/train.py", 8, "slow_metric", "p/train.py:8 slow_metric", 750 * MS)
NOWHERE = LineShare("", -1, "", "torch/nn/a.py:3 forward", 249 * MS)
RARE = LineShare("/home/a/train.py", 12, "main", "p/train.py:12 main", MS)


def shown(snapshot: Snapshot) -> list[str]:
    return [plain(line).rstrip() for line in details(snapshot, None, (), 0, 80)]


def snapshot_with(thread: LinesByTime | None, *gaps: GapLines) -> Snapshot:
    return knowing({main_thread: thread, gap_lines: gaps})


def test_lines_are_listed_with_their_share_of_gaps_and_of_workers() -> None:
    thread = LinesByTime((METRIC, NOWHERE, RARE), 1_000 * MS, 200)
    assert shown(snapshot_with(thread)) == [
        "Where the main thread is   about 200 samples in the steady steps",
        "    75 %  /home/a/train.py:8  slow_metric",
        "    25 %  no line of yours (torch/nn/a.py:3 forward)",
    ]
    assert shown(snapshot_with(None)) == []
    gaps = GapLines(GapCause.PYTHON, 4_000 * MS, LinesByTime((METRIC,), 750 * MS, 7))
    assert shown(snapshot_with(None, gaps)) == [
        "Where the main thread was while the GPU idled, python   7 samples, of 4.00 s",
        "   100 %  /home/a/train.py:8  slow_metric",
    ]
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
