import gzip
import html
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.facts.question import Evidence, Question
from perftui.format import apportioned
from perftui.report import as_json, markdown
from perftui.report.__main__ import conclude
from perftui.report.csv_tables import csv_text, table_named
from perftui.report.html import page
from perftui.report.report import make_report
from perftui.report.subject import Subject, SubjectError, load_subject
from perftui.report.text import brief_json, brief_text, render
from perftui.run.columns import EVENT_COLUMNS, PHASES, STEP_COLUMNS
from perftui.run.control import ASK, take_requests
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import Manifest, Status, read_manifest, write_manifest
from perftui.trace.text import printable
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import busy
from tests.described import described
from tests.step_rows import step_row
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import cpu, text_of

LOADER = {"num_workers": 0, "file": "/p/train.py", "line": 3, "dataset": "Images"}
TRACE = text_of([cpu("aten::mm", 0, 80), cpu("\x1b[2Jx", 90, 10)])


def write_run(runs: Path, run_id: str, started_ns: int = 1, window: bytes | None = None) -> Path:
    layout = create_run_directory(runs, run_id)
    command = ("python", "train.py")
    manifest = Manifest(run_id, command, "/p", started_ns, "box", cpu_count=4, exit_code=0)
    write_manifest(layout.manifest, Manifest(**{**vars(manifest), "status": Status.EXITED}))
    write_steps(layout)
    if window is not None:
        rank = layout.rank(0)
        rank.windows.mkdir(parents=True)
        rank.window(3).write_bytes(window)
    return layout.root


def write_steps(layout: RunLayout, count: int = 30) -> None:
    steps = JournalWriter(layout.rank(0).steps, STEP_COLUMNS)
    ms = {"input_wait": 21, "loader_start": 0, "forward": 4}
    phases = [ms.get(phase, 2) * 1_000_000 for phase in PHASES]
    duration = sum(phases)
    steps.append([step_row(at, phases, start=at * duration) for at in range(count)])
    steps.close()
    events = JournalWriter(layout.rank(0).events, EVENT_COLUMNS)
    events.append([[0, "loader", 0, -1, LOADER]])
    events.close()


def text_of(path: Path) -> str:
    return render(make_report(load_subject(path)))


def test_half_a_surrogate_pair_in_a_name_can_be_reported(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"trace\xff.json")
    path.write_bytes(TRACE.replace("aten::mm", r"aten::\ud800mm").encode())
    report = make_report(load_subject(path))
    operators = described("report", as_json.encode(report))["operators"]
    assert "aten::\ufffdmm" in {row["name"] for row in operators}
    assert "aten::\ufffdmm" in render(report)


def test_a_run_is_told_from_its_directory(tmp_path) -> None:
    text = text_of(write_run(tmp_path / ".perftui" / "runs", "one"))
    lines = text.split("\n")
    assert lines[0] == "train.py - exited with code 0"
    assert "30 steady steps of 30: mean 33 ms" in text
    assert "CRITICAL  input-in-main-thread" in text
    assert "The training spends 21 ms " in text
    assert "num_workers                      0  at /p/train.py:3" in text
    assert "Fix loader-workers: num_workers 0 -> 3 (override)" in text
    assert "No patch: /p/train.py cannot be read" in text
    assert "no window was profiled" in text


def test_the_parts_that_are_shown_sum_to_the_step_that_is_shown(tmp_path) -> None:
    text = text_of(write_run(tmp_path / "runs", "one"))
    rows = re.findall(r"^  ([a-z ]+?) +([\d.]+) ms +([\d.]+) %$", text, re.MULTILINE)
    *parts, (whole, step, percent) = rows
    assert whole == "step"
    assert round(sum(float(ms) for _, ms, _ in parts), 2) == float(step) == 33.0
    assert round(sum(float(share) for *_, share in parts), 1) == float(percent) == 100.0


@given(st.lists(st.integers(0, 10**12), max_size=12), st.integers(0, 10**6))
def test_shares_sum_to_the_units_and_are_nearest(values, units) -> None:
    shares = apportioned(values, units)
    whole = sum(values)
    assert sum(shares) == (units if whole else 0)
    for value, share in zip(values, shares, strict=True):
        assert abs(share * whole - value * units) <= whole


def test_json_says_the_same_in_whole_nanoseconds_with_each_fix_once(tmp_path) -> None:
    report = make_report(load_subject(write_run(tmp_path / "runs", "one")))
    told = described("report", as_json.encode(report))
    assert told["findings"][0]["rule"] == "input-in-main-thread"
    assert told["findings"][0]["severity"] == "critical"
    assert told["verdict"] == f"{told['findings'][0]['sentence'][:-1]}, at train.py:3."
    (budget,) = told["step_breakdowns"]
    assert sum(budget["parts_ns"].values()) == budget["step_ns"] == 33_000_000
    assert told["steps"]["steady"] == 30
    assert told["run"]["command"] == ["python", "train.py"]
    assert told["fixes"][0]["override"]["arguments"]["num_workers"] == 3
    first = report.diagnosis.findings[0]
    findings = (replace(first, fixes=()), first, replace(first, rule="input-bound"))
    report = replace(report, diagnosis=replace(report.diagnosis, findings=findings))
    blocks = render(report).split("\n\n")
    told = [
        [line for line in block.splitlines() if "Fix loader-workers" in line] for block in blocks
    ]
    assert [len(one) for one in told if one] == [1, 1]
    assert "  Fix loader-workers: as above" in render(report)
    (fix, *_) = described("report", as_json.encode(report))["fixes"]
    assert (fix["fix"], fix["answers"]) == ("loader-workers", [first.rule, "input-bound"])


def test_json_of_a_run_by_an_older_version_has_every_field(tmp_path) -> None:
    root = write_run(tmp_path / "runs", "one")
    written = json.loads((root / "run.json").read_text())
    for field in ("cpu_name", "gpu_driver", "stop_reason"):
        del written[field]
    (root / "run.json").write_text(json.dumps(written))
    told = described("report", as_json.encode(make_report(load_subject(root))))
    run = told["run"]
    assert (run["cpu_name"], run["gpu_driver"], run["stop_reason"]) == ("", None, None)


def test_json_holds_all_of_a_trace_and_text_the_rows_that_were_asked_for(tmp_path: Path) -> None:
    story = TraceBuilder()
    for _ in range(3):
        begin = story.now
        story.step()
        for number in range(12):
            story.op(f"aten::op{number:02}").launch(f"kernel{number:02}", us(50)).close()
        story.copy("HtoD", us(30), 1 << 20).all_reduce(us(40)).at(begin + ms(1)).end()
    path = story.write(tmp_path / "trace.json")
    report = make_report(load_subject(path))
    told = described("report", as_json.encode(report))

    assert len(told["kernels"]) == told["totals"]["kernels"]["rows"] == 14
    assert sum(row["device"] for row in told["kernels"]) == told["totals"]["kernels"]["device"]
    trace = told["trace"]
    assert [sum(one["parts_ns"].values()) for one in trace["steps"]] == [ms(1)] * 3
    assert [one["stream"] for one in trace["streams"]] == [7, 20]
    assert sum(one["count"] for one in trace["idle_by_cause"]) == trace["gaps_total"]
    assert sum(gap["duration"] for gap in trace["gaps"]) == sum(
        one["total_ns"] for one in trace["idle_by_cause"]
    )
    whole = max(step["start"] + step["duration"] for step in trace["steps"])
    assert sum(one["total_ns"] for one in trace["idle_by_cause"]) == (
        whole - trace["devices"][0]["busy"]
    )
    (communication,) = trace["communication"]
    assert (communication["total"], communication["exposed"] <= communication["total"]) == (
        3 * us(40),
        True,
    )
    assert trace["launches"]["linked"] == 3 * 14

    text = render(report)
    assert "kernel09" in text
    assert "kernel11" not in text
    assert "  all 14 " in text
    assert "kernel11" in render(make_report(load_subject(path), top=20))


def test_steps_of_a_run_are_rows_in_json(tmp_path: Path) -> None:
    rows = described(
        "report", as_json.encode(make_report(load_subject(write_run(tmp_path / "runs", "one"))))
    )
    steps = rows["steps"]["rows"]
    assert steps["index"] == list(range(30))
    assert sum(steps["duration"]) == 30 * 33_000_000
    assert rows["ranks"] is None
    assert rows["findings"][0]["answer"] == "make batches in worker processes (num_workers)"


def test_what_is_known_of_a_place_is_advised_in_place_of_the_rule_s_answer(tmp_path: Path) -> None:
    made = make_report(load_subject(write_run(tmp_path / "runs", "one")))
    first = replace(made.diagnosis.findings[0], advice="list <files> once, in __init__")
    report = replace(made, diagnosis=replace(made.diagnosis, findings=(first,)))
    forms = (render, markdown.render, brief_text, page.render, as_json.encode, brief_json)
    for form in (*forms, lambda given: csv_text(table_named("findings", given))):
        text = html.unescape(form(report).replace("\\", ""))
        assert "list <files> once, in __init__" in text
        assert "make batches in worker processes" not in text


def test_a_directory_of_runs_gives_the_newest(tmp_path) -> None:
    runs = tmp_path / ".perftui" / "runs"
    write_run(runs, "old", started_ns=1)
    newest = write_run(runs, "a", started_ns=2)
    for path in (runs, tmp_path, newest, newest / "run.json"):
        assert load_subject(path).path == newest


def test_a_run_is_told_with_its_window_even_if_that_was_cut_off(tmp_path) -> None:
    window = TRACE.encode()
    text = text_of(write_run(tmp_path / "runs", "one", window=window))
    assert "aten::mm" in text
    assert "Where the time goes in the training thread (mean of 30 steps)" in text
    text = text_of(write_run(tmp_path / "runs", "two", window=b""))
    assert "CRITICAL  input-in-main-thread" in text
    assert "a profiled window was left out" in text


def test_a_trace_is_told_without_a_run(tmp_path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(TRACE.encode()))
    text = text_of(path)
    assert text.startswith(f"{path}\n\nINFO  compute-bound")
    assert "(all of it)" in text
    assert "  What to do: run it under perftui, which shows the line." in text
    assert "no steps marked" in text


def test_names_from_a_trace_cannot_drive_the_terminal(tmp_path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(TRACE)
    text = text_of(path)
    assert "\x1b" not in text
    assert r"\x1b[2Jx" in text


def test_json_cannot_drive_the_terminal_either(tmp_path) -> None:
    name = "a\x7f\x9b2J\u202eb\u2028\x1bé"
    path = tmp_path / "trace.json"
    path.write_text(TRACE.replace("aten::mm", json.dumps(name)[1:-1]))
    report = make_report(load_subject(path))
    encoded = as_json.encode(report)
    assert printable(encoded).replace("\\x0a", "\n") == encoded
    assert name in {row["name"] for row in described("report", encoded)["operators"]}
    assert "é" in encoded


def test_notes_on_a_directory_of_any_name_can_be_encoded(tmp_path) -> None:
    directory = tmp_path / os.fsdecode(b"traces\xff")
    directory.mkdir()
    for name in ("a.json", "b.json"):
        (directory / name).write_text(TRACE)
    report = make_report(load_subject(directory))
    told = described("report", as_json.encode(report))
    assert any("of 2 traces" in note and "traces\ufffd" in note for note in told["notes"])
    assert "of 2 traces" in render(report)


def test_counts_are_written_whole_and_unknown_ones_not_as_zero() -> None:
    run = make_run(
        count=30, phases={"input_wait": 9, "forward": 1}, cpu_count=0, batches_ready=1234567
    )
    text = render(make_report(Subject(run.root, run)))
    assert re.search(r"batches ready, median +1234567$", text, re.MULTILINE)
    assert "on box, cores unknown, no GPU" in text


def test_a_directory_of_traces_gives_the_newest_and_says_so(tmp_path) -> None:
    for name, changed in (("a.json", 2), ("b.json", 1)):
        path = tmp_path / name
        path.write_text(TRACE)
        os.utime(path, (changed, changed))
    subject = load_subject(tmp_path)
    assert subject.path == tmp_path / "a.json"
    assert subject.notes == (f"the newest of 2 traces in {tmp_path}",)


@pytest.mark.parametrize("content", [b"", b"hello", b"{}", b'{"traceEvents": []}'])
def test_what_is_no_trace_gets_one_message(tmp_path, content) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(SubjectError, match=str(path)):
        load_subject(path)


def test_what_is_not_there_or_damaged_gets_one_message(tmp_path) -> None:
    with pytest.raises(SubjectError, match="no such file"):
        load_subject(tmp_path / "none")
    with pytest.raises(SubjectError, match="neither a run nor a trace"):
        load_subject(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(SubjectError, match="not a run manifest"):
        load_subject(tmp_path)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (Status.KILLED, "killed by a signal"),
        (Status.LOST, "lost: its recorder died"),
        (Status.RUNNING, "running"),
    ],
)
def test_the_heading_says_how_the_run_ended(status, said) -> None:
    run = make_run(status=status)
    assert said in render(make_report(Subject(run.root, run))).split("\n")[0]


def test_a_run_that_never_trained_has_no_verdict() -> None:
    run = make_run(count=0)
    text = render(make_report(Subject(run.root, run)))
    assert "No verdict" in text
    # A reason is said once, with all rules that gave it.
    assert re.search(r"\n  0 of 2 steady steps so far: .*, healthy", text)
    assert text.count("no window has been profiled: ") == 1
    assert (
        described("report", as_json.encode(make_report(Subject(run.root, run))))["verdict"] is None
    )


def test_a_healthy_run_is_reported_with_its_numbers() -> None:
    run = make_run(phases={"forward": 4, "backward": 6}, gpus=("H200",))
    text = render(make_report(Subject(run.root, run, busy(0.95).analysis())))
    assert "\nHEALTHY\n" in text
    assert "No bottleneck found" in text


def test_a_run_is_diagnosed_at_its_end_and_asked_before_that(tmp_path, monkeypatch) -> None:
    root = write_run(tmp_path / "runs", "one")
    conclude(root)
    kept = json.loads((root / "findings.json").read_text())["diagnosis"]
    assert [finding["rule"] for finding in kept["findings"]] == ["input-in-main-thread"]
    root = write_run(tmp_path / "runs", "two")
    manifest = read_manifest(root / "run.json")
    write_manifest(root / "run.json", replace(manifest, status=Status.RUNNING))
    conclude(root)
    assert not (root / "findings.json").exists()
    assert not take_requests(RunLayout(root))
    question = Question(Evidence.SHAPES, "", 0.5)
    monkeypatch.setattr("perftui.report.__main__.question_to_ask", lambda *_: question)
    conclude(root)
    assert [(one.kind, one.data) for one in take_requests(RunLayout(root))] == [
        (ASK, {"evidence": "shapes"})
    ]
