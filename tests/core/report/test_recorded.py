"""What a report says of how the run was recorded."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from perftui.report.as_json import as_object
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.report.text import render
from perftui.run.columns import EVENT_COLUMNS, PHASES, STEP_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import Manifest, Status, write_manifest
from perftui.wire.spool import AgentOptions
from tests.core.trace import nsys_exports
from tests.described import described
from tests.step_rows import step_row
from tests.traces.events import cpu, mark, write

MS = 1_000_000


def write_run(
    runs: Path, options: AgentOptions, events: list[list[Any]], **of_steps: int
) -> RunLayout:
    """Thirty steps of 10 ms; each costs 0.1 ms of hooks."""
    layout = create_run_directory(runs, "one")
    profile = {**asdict(options), "stack_rate": 10}
    manifest = Manifest("one", ("python", "train.py"), "/p", 1, "box", profile=profile, exit_code=0)
    write_manifest(layout.manifest, Manifest(**{**vars(manifest), "status": Status.EXITED}))
    steps = JournalWriter(layout.rank(0).steps, STEP_COLUMNS)
    phases = [(10 if phase == "forward" else 0) * MS for phase in PHASES]
    for at in range(30):
        row = step_row(at, phases, start=at * 10 * MS)
        named = {"overhead": MS // 10, **of_steps}
        steps.append(
            [
                [
                    named.get(column.name, value)
                    for column, value in zip(STEP_COLUMNS, row, strict=True)
                ]
            ]
        )
    steps.close()
    journal = JournalWriter(layout.rank(0).events, EVENT_COLUMNS)
    journal.append(events)
    journal.close()
    return layout


def window(first: int, steps: int, reason: str, **more: Any) -> list[Any]:
    data = {"file": f"windows/{first}.pt.trace.json", "first_step": first, "steps": steps}
    return [1, "window", 12 * MS, first, {**data, "stall": 12 * MS, "reason": reason, **more}]


def block(layout: RunLayout, title: str) -> list[str]:
    """The lines under ``title`` in the report as text."""
    blocks = render(make_report(load_subject(layout.root))).split("\n\n")
    (found,) = (each.splitlines() for each in blocks if each.startswith(title))
    return [" ".join(line.split()) for line in found[1:]]


def test_options_cost_and_why_windows_were_opened_are_reported(tmp_path: Path) -> None:
    options = AgentOptions(shapes=True, modules=True, overhead=0.02)
    events = [window(11, 1, "warm"), window(20, 3, "slow"), window(25, 1, "a new reason")]
    layout = write_run(tmp_path, options, events)

    assert block(layout, "Recording") == [
        "options: --overhead 2% --shapes --modules --stack-rate 10",
        "perftui 1.0 %, limit 2 %, of 300 ms of steps "
        "(hooks 3.0 ms, windows 0 ns, slower steps 0 ns)",
        "window: step 11, after the warm-up; stalled the training 12 ms",
        "window: steps 20-22, after a slow step; stalled the training 12 ms",
        "window: step 25, a new reason; stalled the training 12 ms",
    ]


def test_of_many_windows_the_first_and_the_newest_are_listed(tmp_path: Path) -> None:
    layout = write_run(tmp_path, AgentOptions(), [window(n, 1, "regular") for n in range(9)])
    lines = [line for line in block(layout, "Recording") if "step" in line or "between" in line][1:]

    assert [line.split(",")[0] for line in lines] == [
        "window: step 0",
        "... 4 windows in between",
        *(f"window: step {number}" for number in range(5, 9)),
    ]


def test_chosen_steps_are_reported_as_they_were_asked_for(tmp_path: Path) -> None:
    options = AgentOptions(first_step=100, window_steps=5, stacks=True, max_steps=200)
    layout = write_run(tmp_path, options, [])

    assert block(layout, "Recording")[0] == (
        "options: --steps 100-104 --overhead 1% --stacks --max-steps 200 --stack-rate 10"
    )


def test_memory_of_the_gpu_is_reported_where_it_is_known_alone(tmp_path: Path) -> None:
    known = {"allocated": 3 << 30, "reserved": 5 << 30, "peak_allocated": 4 << 30}
    layout = write_run(tmp_path, AgentOptions(), [], **known, alloc_retries=1, alloc_failures=0)

    assert block(layout, "GPU memory") == [
        "allocated at the last step 3.0 GiB",
        "peak so far 4.0 GiB",
        "reserved 5.0 GiB",
        "allocation retries 30",
    ]
    found = described("report", as_object(make_report(load_subject(layout.root))))["recording"][
        "memory"
    ]
    assert found == {
        "allocated": 3 << 30,
        "reserved": 5 << 30,
        "peak": 4 << 30,
        "retries": 30,
        "failures": 0,
    }
    layout = write_run(tmp_path / "unknown", AgentOptions(), [])
    assert "GPU memory" not in render(make_report(load_subject(layout.root)))
    assert (
        described("report", as_object(make_report(load_subject(layout.root))))["recording"][
            "memory"
        ]
        is None
    )


def test_snapshots_and_reports_of_nsys_are_reported_with_the_command_that_opens_them(
    tmp_path: Path,
) -> None:
    events = [
        [1, "memory_snapshot", 0, 5, {"file": "memory/peak.pickle", "reason": "peak", "peak": 7}],
        [
            2,
            "memory_snapshot",
            0,
            9,
            {"file": "memory/peak.pickle", "reason": "peak", "peak": 2048},
        ],
        [3, "memory_snapshot", 0, 9, {"file": "memory/gone.pickle", "reason": "out of memory"}],
        [4, "nsys_range", 0, 12, {"first_step": 12, "steps": 2, "stall": MS, "reason": "warm"}],
    ]
    layout = write_run(tmp_path, AgentOptions(nsys=True), events)
    peak, report = layout.rank(0).memory / "peak.pickle", layout.nsys / "steps.1.nsys-rep"
    for path in (peak, report):
        path.parent.mkdir()
        path.touch()

    assert block(layout, "Recording")[2:] == [
        "nsys: steps 12-13, after the warm-up; stalled the training 1.0 ms",
        f"GPU memory at the peak of 2.0 KiB, step 9: perftui {peak}",
        f"Nsight Systems report: perftui {report}",
    ]
    assert block(layout, "Recording")[0].startswith("options: --nsys ")


def test_json_has_all_of_it(tmp_path: Path) -> None:
    layout = write_run(tmp_path, AgentOptions(), [window(11, 1, "warm")])
    found = described("report", as_object(make_report(load_subject(layout.root))))["recording"]

    found = json.loads(json.dumps(found))
    assert found["windows"] == [
        {
            "first_step": 11,
            "steps": 1,
            "reason": "warm",
            "stall": 12 * MS,
            "file": str(layout.rank(0).windows / "11.pt.trace.json"),
        }
    ]
    assert found["cost"]["total"] == 3 * MS
    assert found["options"] == ["--overhead 1%", "--stack-rate 10"]


def test_modules_are_listed_with_what_ran_in_none_last(tmp_path: Path) -> None:
    events = [mark("nn.Module: head (Linear)", 0, 40), cpu("aten::mm", 1, 30)]
    path = write(tmp_path / "trace.json", [*events, cpu("aten::add_", 50, 60)])
    report = make_report(load_subject(path))

    assert [(row.name, row.calls, row.cpu_own) for row in report.modules] == [
        ("head (Linear)", 1, 40_000),
        ("(in no module)", 1, 60_000),
    ]
    text = render(report)
    assert text.index("Modules, longest") < text.index("head (Linear)") < text.index("(in no mod")
    assert [row["name"] for row in described("report", as_object(report))["modules"]][
        -1
    ] == "(in no module)"


EXPORT = """#!/bin/sh
for word in "$@"; do case "$word" in --output=*) out="${{word#--output=}}";; esac; done
cp {prepared} "$out"
"""


def test_a_report_of_nsys_is_reported_with_the_run_where_no_window_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = write_run(tmp_path / "runs", AgentOptions(nsys=True), [])
    layout.nsys.mkdir()
    for number in (1, 2):
        (layout.nsys / f"steps.{number}.nsys-rep").write_bytes(b"what nsys wrote")
    prepared = nsys_exports.write(tmp_path / "prepared.sqlite", nsys_exports.small())
    program = tmp_path / "nsys"
    program.write_text(EXPORT.format(prepared=prepared))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PERFTUI_CACHE", "off")
    told: list[Any] = []

    alone = load_subject(layout.root)
    with_trace = load_subject(layout.root, exporting=told.append)

    assert (alone.analysis, alone.notes) == (None, ("no window was profiled",))
    assert with_trace.analysis is not None
    assert with_trace.analysis.trace.path == layout.nsys / "steps.2.nsys-rep"
    assert with_trace.run is not None


def test_a_report_of_nsys_that_cannot_be_read_does_not_hide_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = write_run(tmp_path / "runs", AgentOptions(nsys=True), [])
    layout.nsys.mkdir()
    (layout.nsys / "steps.1.nsys-rep").write_bytes(b"what nsys wrote")
    monkeypatch.setenv("PATH", str(tmp_path))
    subject = load_subject(layout.root, exporting=lambda _: None)

    assert subject.analysis is None
    (note,) = subject.notes
    assert note.startswith("a report of nsys was left out: ")
