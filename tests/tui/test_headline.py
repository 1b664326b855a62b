"""The first lines are never blank, whatever the run has come to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.analysis.model import GapCause
from perftui.diagnosis.diagnose import timeline_place
from perftui.diagnosis.model import Abstention, Confidence, Diagnosis, Figure, Finding, Severity
from perftui.experiments.journal import Proof
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.data_loader.batch_place import WorkerLines, loader_lines
from perftui.facts.gpu.host_waits import SyncCall, SyncCalls, syncs
from perftui.facts.gpu.idle import GapLines, gap_lines
from perftui.facts.place import Place
from perftui.facts.question import Evidence, Question
from perftui.facts.source.lines import LinesByTime, LineShare, main_thread
from perftui.fixes.option import FixOption, Patch, Risk
from perftui.report.wording import NO_GPU
from perftui.run.control import Request, take_requests
from perftui.run.layout import RunLayout
from perftui.run.manifest import Override, Status, StopReason
from perftui_tui.actions.requests import ask_for_evidence
from perftui_tui.dialogs.choice import labelled
from perftui_tui.dialogs.experiment import diff_rows, risk
from perftui_tui.look.rows import plain, safe
from perftui_tui.panes.verdict import findings, verdict_line
from perftui_tui.reading.snapshot import Phase, Snapshot, next_try
from perftui_tui.reading.view import RunView, SteadyVerdict, view_trace
from perftui_tui.screens.diagnosis import details, listing
from perftui_tui.screens.overview.dashboard import GapList, headline
from tests.facts_given import knowing
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import NOW, START, write_run
from tests.tui.traces import write_trace

HEALTHY = Finding("healthy", Severity.HEALTHY, "nothing costs much", ())
BUSY = Finding("busy-host", Severity.CRITICAL, "other programs take cores", ())


def snapshot_of(tmp_path: Path, **contents: Any) -> Snapshot:
    root = write_run(tmp_path / "runs", **contents)
    return RunView(root, lambda: NOW, lambda: False).read()


def words(snapshot: Snapshot, cells: int = 120) -> str:
    return "\n".join(plain(line).rstrip() for line in headline(snapshot, cells, 2))


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({"steps": 0, "torch_version": None}, "torch is not loaded yet (7:12)"),
        ({"steps": 0}, "torch is loaded, no training step yet (7:12)"),
        ({"steps": 1}, "COLLECTING"),
    ],
)
def test_how_far_a_training_has_come_is_said_before_anything_is_judged(
    tmp_path: Path, contents: dict[str, Any], expected: str
) -> None:
    snapshot = snapshot_of(tmp_path, **contents)
    assert expected in words(snapshot)
    waits = [plain(line).strip() for line in details(snapshot, None, (), 0, 80)]
    assert waits[1:3] == ["0 of 2 steady steps so far", "24 rules"]
    first = "JUDGING" if snapshot.train_steps else expected
    assert first in words(replace(snapshot, is_judged=False))


def test_a_slow_loader_is_the_bottleneck_also_while_a_window_is_being_read(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    text = words(snapshot)
    assert text.startswith(" BOTTLENECK")
    assert "loader runs in the main thread" in text
    assert "up to 1.66x faster" in text
    assert words(replace(snapshot, is_reading=True)).startswith(" BOTTLENECK")
    first, *others = snapshot.diagnosis.findings
    advised = replace(first, advice="list the files once")
    known = replace(snapshot, diagnosis=replace(snapshot.diagnosis, findings=(advised, *others)))
    assert " DO THIS     list the files once" in words(known)
    # What there is room for is told whole, with the keys behind it.
    long = replace(BUSY, advice="list the files once, before the first epoch, and keep them")
    told = words(replace(known, diagnosis=Diagnosis((long,))), 60).splitlines()[1:]
    assert [line.strip() for line in told] == [
        "DO THIS     list the files once, before the first epoch,",
        "and keep them  enter why",
    ]
    # The headline names the first: the list has the others.
    assert [plain(line) for line in findings(known, 80, 0)] == ["nothing else was found"]
    later = replace(known, diagnosis=Diagnosis((first, replace(advised, rule="other"))))
    assert plain(findings(later, 80, 0)[-1]).strip() == "to do: list the files once"


def test_what_is_lacking_is_asked_for_and_that_is_shown(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    question = Question(Evidence.SHAPES, "whether attention could be faster", 0.2)
    lacking = replace(
        snapshot.diagnosis,
        abstentions=(Abstention("attention-mask", question.lack, question),),
        asking=f"asking: {question.text}",
    )
    snapshot = replace(snapshot, diagnosis=lacking)
    for drawn in (findings(snapshot, 120, 0), listing(snapshot, 0, 120)):
        assert "asking: shapes, to tell whether attention" in "\n".join(map(plain, drawn))
    layout = RunLayout(snapshot.source)
    for phase in (Phase.ENDED, Phase.LIVE):
        ask_for_evidence(replace(snapshot, phase=phase))
    assert take_requests(layout) == [Request("ask", {"evidence": "shapes"})]


def test_what_cannot_be_done_is_not_advised_but_the_first_that_can(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path, cpu_count=1)
    text = words(snapshot, 80)
    # What to write comes first, then why perftui does not.
    advice = "make batches in worker processes (num_workers)"
    assert f"DO THIS     {advice}" in text
    assert "not possible" not in text
    assert f"to do: {advice}; perftui does not write it:" in second(snapshot)
    (rule,) = snapshot.options
    by_hand = FixOption("other", "write a cache", "", advice="cache(it)")
    snapshot = replace(snapshot, options={rule: (*snapshot.options[rule], by_hand)})
    assert "DO THIS     write a cache" in words(snapshot)
    assert "fix: write a cache" in second(snapshot)


def test_a_proven_fix_of_a_later_finding_is_named_until_it_is_written(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    (found,), (option,) = snapshot.diagnosis.findings, *snapshot.options.values()
    busy = replace(found, rule="busy-host", sentence="Other programs use the cores.", place=None)
    snapshot = replace(snapshot, diagnosis=Diagnosis((busy, found), steady_steps=199))
    assert "enter shows why, and what to do   a tries num_workers" in words(snapshot)
    said = "2.00x faster (1.90 to 2.10)"
    result = Proof(option.fix, option.title, Outcome.FASTER, said, (), 1, 2.0)
    proven = replace(snapshot, proofs={option.fix: result})
    wide = replace(result, headline="at least 4.47x faster, likely 6.36x (up to 9.00x)")
    unclear = replace(snapshot, proofs={option.fix: wide})
    assert f"{option.title}   at least 4.47x faster  enter then w" in words(unclear, 80)
    assert f"PROVEN      {option.title}   2.00x faster (1.90 to 2.10)  enter then w" in words(
        proven
    )
    listed = "\n".join(plain(line) for line in findings(proven, 100, 0))
    assert f"fix: {option.title}   2.00x faster (1.90 to 2.10)" in listed
    assert "!!  40 %   2.00x  The training" in listed
    unsure = Diagnosis((busy, replace(found, confidence=Confidence.MEDIUM)))
    assert "(medium confidence)" in plain(findings(replace(proven, diagnosis=unsure), 500, 0)[0])
    done = replace(option, is_written=True)
    written = replace(proven, options={found.rule: (done,)})
    for cells, keys in ((120, "shows it  r runs it  u undoes it"), (80, "shows it")):
        expected = f"WRITTEN     {option.title}   2.00x faster (1.90 to 2.10)  enter {keys}"
        assert expected in words(written, cells)
    assert f"written: {option.title}   2.00x faster" in "\n".join(
        plain(line) for line in findings(written, 100, 0)
    )


def test_where_a_fix_brought_nothing_the_next_finding_is_gone_on_with(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    (found,), (option,) = snapshot.diagnosis.findings, *snapshot.options.values()
    other = replace(found, rule="debug-flags", sentence="Anomaly detection is on.", place=None)
    untried = FixOption("anomaly-off", "anomaly detection off", "", override=Override("a", {}))
    snapshot = replace(
        snapshot,
        diagnosis=Diagnosis((found, other), steady_steps=199),
        options={found.rule: (option,), other.rule: (untried,)},
    )
    assert f"DO THIS     {option.title}" in words(snapshot)
    slower = "1.25x slower (1.16 to 1.35)"
    result = Proof(option.fix, option.title, Outcome.SLOWER, slower, (), 1, 0.8)
    tried = replace(snapshot, proofs={option.fix: result})
    assert "DO THIS     anomaly detection off   up to 1.66x faster for finding 2  a" in words(tried)
    following = next_try(tried)
    assert (following.finding, following.option) == (other, untried)
    listed = second(tried)
    assert f"fix: {option.title}   {slower}" in listed
    assert "!!  40 %   0.80x  The" in listed
    alone = replace(tried, options={found.rule: (option,)})
    assert f"TRIED       {option.title}   {slower}  enter shows what else" in words(alone)


def test_a_fix_that_needs_idle_cores_says_so(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    (rule,) = snapshot.options
    scarce = replace(snapshot.options[rule][0], risks=(Risk.CORES,))
    text = words(replace(snapshot, options={rule: (scarce,)}), 80)
    assert "num_workers 0 -> 4   ≤1.66x, few idle cores  a try it  enter why" in text


def test_without_evidence_of_what_computes_nothing_is_called_healthy(tmp_path: Path) -> None:
    text = words(snapshot_of(tmp_path, wait_ms=0, workers=2))
    assert text.startswith(" NO FINDING  no rule exceeds its limit in 199 steps; 8 rules")
    assert "could not judge, 4 shows why" in text


def test_a_training_that_computes_all_the_time_is_not_accused(tmp_path: Path) -> None:
    found = Finding("compute-bound", Severity.INFO, "Operators take all of it.", steps=199)
    snapshot = snapshot_of(tmp_path, wait_ms=0, workers=2)
    text = words(replace(snapshot, diagnosis=Diagnosis((found,), steady_steps=199)))
    assert text.startswith(" COMPUTING   Operators take all of it.")
    assert "NEXT        nothing stands out; 3 shows the ops" in text
    # Of one whose work is all judged it is said to be healthy.
    healthy = Finding("healthy", Severity.HEALTHY, "No bottleneck found: all computes.", steps=199)
    text = words(replace(snapshot, diagnosis=Diagnosis((healthy,), steady_steps=199)))
    assert text.startswith(" HEALTHY     No bottleneck found")


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ({"status": Status.EXITED, "exit_code": 1}, "exit code 1 without a training step"),
        ({"status": Status.EXITED, "exit_code": 0}, "ended (exit 0) without a training step"),
        ({"status": Status.KILLED, "exit_code": 137}, "exit code 137"),
        (
            {"status": Status.KILLED, "exit_code": 130, "stop_reason": StopReason.TRIAL},
            "stopped for a trial without a training step",
        ),
        ({"status": Status.LOST}, "the recorder died"),
        ({"status": Status.EXITED, "exit_code": 1, "torch_version": None}, "before it used torch"),
        ({"status": Status.EXITED, "message": "no such interpreter"}, "no such interpreter"),
    ],
)
def test_a_run_that_ended_early_says_how(
    tmp_path: Path, contents: dict[str, Any], expected: str
) -> None:
    snapshot = snapshot_of(tmp_path, steps=0, ended_ns=START + 10**9, **contents)
    text = words(snapshot)
    assert expected in text
    assert len(text.splitlines()) >= 2


def test_a_run_that_failed_says_so_before_what_slowed_it(tmp_path: Path) -> None:
    failed = snapshot_of(tmp_path, status=Status.EXITED, exit_code=1, ended_ns=START + 10**9)
    first, second, *_ = words(failed).splitlines()
    said = "the script ended with exit code 1 after 200 steps; 6 shows why"
    assert first == f" FAILED      {said}"
    assert second.startswith(" BOTTLENECK")
    assert "FAILED" not in words(replace(failed, phase=Phase.ENDED))


def test_a_long_sentence_is_wrapped_not_cut(tmp_path: Path) -> None:
    text = words(snapshot_of(tmp_path), cells=80)
    assert "…" not in text
    assert all(len(line) <= 80 for line in text.splitlines())


@pytest.mark.parametrize("found", [(), (HEALTHY,)])
def test_a_window_that_is_being_read_may_yet_say_more(
    tmp_path: Path, found: tuple[Finding, ...]
) -> None:
    judged = replace(snapshot_of(tmp_path), diagnosis=Diagnosis(found, steady_steps=199))
    reading = replace(judged, is_reading=True)
    sentence = "the profiled window is being read and will then be judged"
    assert words(reading).startswith(f" READING     {sentence}")
    assert plain(verdict_line(reading, 120, 1)[0]).startswith(f" READING     {sentence}")
    assert "READING" not in words(judged)
    over = replace(reading, diagnosis=Diagnosis((BUSY,), steady_steps=199), phase=Phase.ENDED)
    assert words(over).startswith(f" READING     {sentence}")
    assert "MEANWHILE" in words(over)
    assert any(sentence in plain(line) for line in listing(over, 0, 80))


def test_nothing_found_is_not_called_starting(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    judged = replace(snapshot, diagnosis=Diagnosis(steady_steps=199))
    assert words(judged).startswith(" NO FINDING  no rule exceeds its limit in 199 steps")
    assert plain(verdict_line(judged, 60, 1)[0]).startswith(" NO FINDING  no rule exceeds")


def test_the_fix_of_another_finding_is_offered_where_the_first_has_none(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path)
    diagnosis = Diagnosis((BUSY, *snapshot.diagnosis.findings), steady_steps=50)
    text = words(replace(snapshot, diagnosis=diagnosis), 100)
    assert "enter shows why, and what to do   a tries num_workers 0 -> 4 for finding 2" in text
    narrow = words(replace(snapshot, diagnosis=diagnosis), 74)
    assert narrow.endswith("enter shows why, and what to do   a tries num_workers 0 -> 4")


def test_another_finding_comes_first_only_with_more_evidence_and_at_a_second_look(
    tmp_path: Path,
) -> None:
    live, steady = snapshot_of(tmp_path), SteadyVerdict()
    slow = Finding("slow-operator", Severity.WARNING, "one")
    busy = Finding("python-bound", Severity.WARNING, "other")

    def told(steps: int, *found: Finding, progress: str = "", phase: Phase = Phase.LIVE) -> str:
        judged = Diagnosis(found, steady_steps=steps, progress=progress)
        held = steady.hold(replace(live, diagnosis=judged, phase=phase))
        return verdict_line(held, 120, 1)[0][1][0].strip()

    assert told(3, slow, progress="collecting") == "still judging what was recorded"
    assert told(4, slow, progress="collecting") == "one"
    assert [told(5, busy, slow), told(5, busy, slow)] == ["one", "one"]
    assert told(6, busy, slow) == "other"
    assert [told(200, slow, busy), told(201, busy)] == ["other", "other"]
    assert [told(202, slow), told(203, slow)] == ["other", "one"]
    assert told(203, busy, phase=Phase.ENDED) == "other"


def test_a_trial_is_called_one(tmp_path: Path) -> None:
    snapshot = snapshot_of(tmp_path, overrides=(Override("DataLoader", {"num_workers": 4}),))
    assert "TRIAL" not in words(snapshot)
    named = {"parent": "20231114-221320-train-7729", "name": "num_workers 0 -> 4"}
    manifest = replace(snapshot.run.manifest, **named)
    last = words(replace(snapshot, run=replace(snapshot.run, manifest=manifest))).splitlines()[-1]
    assert last.startswith(" TRIAL       num_workers 0 -> 4, one run, against train-7729; 5 comp")


def second(snapshot: Snapshot) -> str:
    """The list of findings where there is one before those of ``snapshot``."""
    first = Finding("busy-host", Severity.WARNING, "Other programs use the cores.")
    others = (first, *snapshot.diagnosis.findings)
    later = replace(snapshot, diagnosis=Diagnosis(others, steady_steps=199))
    return "\n".join(plain(line) for line in findings(later, 100, 0))


MS = 1_000_000


async def test_it_shows_devices_kernels_no_empty_meters_and_gaps_that_open(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        text = text_of(app)
        assert "GPU 0" in text
        assert "3 kernels 12.0 ms" in text
        assert "Top kernels" in text
        assert "gemm" in text
        assert "Disk" not in text
        assert "Log" not in text.splitlines()[-8]
        await until_shown(pilot, "GPU idle")
        await pilot.pause(0.2)
        await pilot.click(GapList, offset=(5, 5))
        await until(pilot, lambda: app.current_mode == "timeline", "the timeline")


def test_only_what_could_not_be_read_is_a_warning(tmp_path: Path) -> None:
    path = write_trace(tmp_path, gpu=False)
    path.write_text(path.read_text()[:-40])
    snapshot = view_trace(path, 0, lambda _: None, lambda: False)
    (damage,) = snapshot.analysis.trace.warnings if snapshot.analysis else ()
    styles = {
        plain(line): {style for _, style in line if style} for line in findings(snapshot, 300, 0)
    }
    assert styles[damage.message] == {"warn"}
    assert styles["no GPU activity recorded"] == {"dim"}


async def test_a_trace_without_a_gpu_shows_its_operators(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path, gpu=False), (80, 24), replay=True) as (app, pilot):
        await until_shown(pilot, "Top operators")
        assert "GPU idle" not in text_of(app)
        assert "aten::mm" in text_of(app)
        assert "no GPU activity in this trace" in text_of(app)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(60, 18), (80, 24), (120, 40), (300, 80)])
@pytest.mark.keys("overview.show_gap", "overview.select_gap(1)")
async def test_the_selected_gap_opens_on_a_timeline(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(write_trace(tmp_path), size, replay=True) as (app, pilot):
        await until_shown(pilot, "GPU idle")
        gaps = app.snapshot.analysis.gaps
        # Two before an activity each, and those at the ends.
        assert len(gaps) == 4
        await press(pilot, "down", "up", "t", screen="timeline", until="idle 6.00 ms")
        await until_shown(pilot, "GPU 0 idle 6.00 ms")


def finding(rule: str, *facts: Figure) -> Finding:
    return Finding(rule, Severity.WARNING, "it is slow", facts)


def test_evidence_is_where_a_fact_says_else_at_the_longest_gap_of_its_kind(tmp_path: Path) -> None:
    path = write_trace(tmp_path)
    analysis = view_trace(path, 0, lambda _: None, lambda: False).analysis
    placed = Figure("mean idle", 3, place=Place(start=5, end=9, trace_row=2))
    assert timeline_place(finding("sync-bound", placed), analysis) == (5, 9, 2)
    longest = {gap.cause: (gap.start, gap.end, None) for gap in reversed(analysis.gaps)}
    rules = {
        GapCause.INPUT_WAIT: "input-bound",
        GapCause.SYNCHRONISATION: "sync-bound",
        GapCause.LAUNCH: "launch-bound",
    }
    for cause, rule in rules.items():
        place = timeline_place(finding(rule), analysis)
        assert place == longest.get(cause)
    assert timeline_place(finding("memory-pressure"), analysis) is None
    assert timeline_place(finding("input-bound"), None) is None


async def test_the_breakdown_is_of_the_steps_that_findings_speak_of(tmp_path: Path) -> None:
    """A first step of ten times the usual length is warm-up, in the bar as in the findings."""
    path = write_trace(tmp_path, steps=6)
    content = json.loads(path.read_text())
    for event in content["traceEvents"]:
        event["ts"] += 90_000 if event["ts"] >= 10_000 else 0
        if event["name"] == "ProfilerStep#0":
            event["dur"] = 99_990
    path.write_text(json.dumps(content))
    async with opened(path, replay=True) as (app, pilot):
        await until_shown(pilot, "5 steady of 6 steps in the trace")
        breakdown = app.snapshot.breakdown
        assert breakdown.mean.mean == breakdown.mean.p95 == 9_990_000
        assert sum(part.ns for part in breakdown.parts) == breakdown.mean.mean


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
    assert "12 ms of each 120 ms step (10 %)" in text
    assert "low confidence from 2 steady steps" in " ".join(text.split())
    text = said(
        Finding("sync-bound", Severity.WARNING, "It idles.", cost_ns=350 * MS, step_ns=3500 * MS)
    )
    assert "350 ms of the recorded 3.5 s (10 %)" in text
    assert "from the whole trace" in " ".join(text.split())
    assert "each" not in text.partition("Do ")[0]
    text = said(Finding("memory-pressure", Severity.WARNING, "It is nearly full."))
    assert "from" not in text.partition("Do ")[0]


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
    assert "        no core is free for more workers (of 1 core)" in lines
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
    reasons = [Abstention("memory-growth", why) for why in ("no sample", "no window")]
    diagnosis = Diagnosis((), tuple(reasons), steady_steps=30)
    snapshot = Snapshot(Path("t.json"), Phase.TRACE, "t.json", 0, diagnosis=diagnosis)
    lines = [plain(line).strip() for line in listing(snapshot, 0, 80)]
    said = "no rule exceeds its limit in 30 steps; 1 rule could not judge, 4 shows why"
    assert lines == [said]
    judging = replace(snapshot, is_judged=False)
    assert plain(listing(judging, 0, 80)[0]) == "still judging what was recorded"
    diagnosis = Diagnosis(abstentions=(Abstention("sync-bound", "no window"),), steady_steps=5)
    snapshot = Snapshot(Path("run"), Phase.LIVE, "train.py", 0, diagnosis=diagnosis)
    rows = [plain(line) for line in details(snapshot, None, (), 0, 80)]
    assert rows == ["Not judged, and why", "  no window", "    sync-bound"]


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
        "Where the main thread is, over the steady steps (about 200 samples)",
        "   75.0 %  /home/a/train.py:8 in slow_metric",
        "   24.9 %  no line of yours (torch/nn/a.py:3 forward)",
    ]
    assert shown(snapshot_with(None)) == []
    gaps = GapLines(GapCause.PYTHON, 4_000 * MS, LinesByTime((METRIC,), 750 * MS, 7))
    workers = WorkerLines(LinesByTime((METRIC,), 750 * MS, 42), busy=0.95, collate=0.0)
    both = knowing({main_thread: None, gap_lines: (gaps,), loader_lines: workers})
    rows = shown(both)
    assert rows[0] == "Where the workers make batches, 95 % of their time (about 42 samples)"
    assert rows[3].startswith("Where the main thread was while the GPU idled, python (7 samples")
    assert [line for line in rows if "100.0 %" in line] == [
        "  100.0 %  /home/a/train.py:8 in slow_metric"
    ] * 2


def test_calls_that_wait_are_listed_by_line() -> None:
    call = SyncCall("item", "/home/a/train.py", 31, "main", 6, 9 * MS, 3 * MS)
    on_gpu = knowing({syncs: SyncCalls((call,), 3, on_gpu=True)})
    assert shown(on_gpu) == [
        "Calls that wait for the GPU, over 3 profiled steps",
        "    a step  time a step   longest",
        "       2.0       3.0 ms    3.0 ms  item at /home/a/train.py:31",
    ]
    without = knowing({syncs: SyncCalls((), 3, on_gpu=False)})
    assert shown(without) == [
        "Calls that would wait for a GPU, over 3 profiled steps",
        f"  {NO_GPU.partition(' call')[0]}…",
        "    a step  time a step   longest",
        "  none",
    ]
