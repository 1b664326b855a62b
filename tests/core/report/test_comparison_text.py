from __future__ import annotations

from pathlib import Path

from perftui.experiments.comparison import compare
from perftui.report.comparison_text import render_comparison
from tests.core.diagnosis.runs import make_run

LOADER = {"num_workers": 0, "file": "/p/train.py", "line": 3}


def test_both_runs_stand_side_by_side() -> None:
    before = make_run(100, {"input_wait": 20, "forward": 10}, loaders=(LOADER,), root=Path("one"))
    after = make_run(
        100, {"input_wait": 5, "forward": 10}, ({**LOADER, "num_workers": 2},), root=Path("two")
    )
    lines = render_comparison(compare(before, after)).split("\n")
    assert lines[0].startswith("FASTER  2.00x  (beyond noise")
    assert lines[1] == "changed: num_workers 0 -> 2"
    rows = {line[:24].strip(): line[24:].split() for line in lines[3:]}
    assert rows["mean step"] == ["30", "ms", "15", "ms"]
    assert rows["steps a second"] == ["33.3", "66.7"]
    assert rows["input wait"] == ["20", "ms", "5.0", "ms"]
    assert "  one run each: no confidence interval" in lines


def test_a_run_without_steps_is_said_to_have_none() -> None:
    lines = render_comparison(compare(make_run(100), make_run(0))).split("\n")
    assert lines[0] == "INCONCLUSIVE  (the second run has 0 steady steps of 20)"
    assert lines[3].split()[-1] == "0"
