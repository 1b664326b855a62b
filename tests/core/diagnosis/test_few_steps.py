"""Runs of few long steps, or of none, are judged by samples; costs of short runs are told."""

from __future__ import annotations

from perftui.diagnosis.model import Confidence, Severity
from perftui.facts.fact import Facts
from perftui.facts.notes import notes
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.columns import BACKWARD
from perftui.run.manifest import Status
from tests.core.diagnosis.runs import MS, make_run, step_table
from tests.core.diagnosis.script_runs import Seen, judged, reason, run_of, source_of, told

JSON = "python3.12/json/__init__.py dumps"


def one_step(status: Status = Status.EXITED, length: int = 8000):
    half = length // 2
    seen = (Seen(0, half, 9, BACKWARD), Seen(half, half, 15, function="report", via=JSON))
    steps = step_table(1, {"backward": half, "other": half})
    return run_of(steps, *seen, status=status)


def test_a_run_of_one_long_step_is_judged_at_low_confidence() -> None:
    finding = told(one_step(), "python-bound")
    assert (finding.cost_ns, source_of(finding)) == (4000 * MS, "/p/train.py:15")
    assert (finding.severity, finding.confidence) == (Severity.WARNING, Confidence.LOW)


def test_while_it_runs_the_first_step_may_be_warm_up() -> None:
    assert judged(one_step(Status.RUNNING)).top is None


def test_a_short_step_alone_says_nothing() -> None:
    assert reason(one_step(length=2000), "python-bound") == "0 of 2 steady steps so far"


def test_a_run_without_steps_names_where_it_was() -> None:
    seen = (Seen(0, 6000, 22, function="distance"), Seen(6000, 2000, 30))
    top = judged(run_of(step_table(0, {}), *seen)).top
    assert top is not None
    assert top.sentence == (
        "The script's own code takes 8.0 s of the recorded 8.0 s (100 %), outside forward, "
        "backward and optimizer, 75 % of it at train.py:22 in distance."
    )
    assert (top.rule, top.confidence) == ("largest-part", Confidence.LOW)
    assert source_of(top) == "/p/train.py:22"


def test_a_short_run_that_paid_much_for_being_recorded_says_so() -> None:
    budget = {"overhead": 0.01}
    costly = make_run(phases={"forward": 100}, overhead=3_000_000, profile=budget)
    assert notes(Facts(costly)) == (
        "perftui 3.0 %, limit 1 %, of 4.0 s of steps: so short a run pays for its first window; "
        "its steps are judged without that cost",
    )
    heading = render(make_report(Subject(costly.root, costly))).split("\n\n")[0]
    assert heading.endswith("\nperftui 3.0 %, limit 1 %")
    cheap = make_run(phases={"forward": 100}, overhead=900_000, profile=budget)
    assert notes(Facts(cheap)) == ()
    heading = render(make_report(Subject(cheap.root, cheap))).split("\n\n")[0]
    assert "limit" not in heading
