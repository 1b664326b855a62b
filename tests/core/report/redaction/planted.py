"""A run and a trace with secrets in every field that a report shows."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from perftui.diagnosis.model import Abstention, Figure, Finding, Severity
from perftui.facts.place import Place
from perftui.report.report import Report, make_report
from perftui.report.subject import load_subject
from perftui.run.columns import EVENT_COLUMNS, STACK_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout
from tests.traces.builder import TraceBuilder, ms
from tests.tui.recorded import ENDED, SECOND, START, write_run

USER, OTHER = "alice-secret", "bob-secret"
HOST = "host-secret.internal"
UUID = "GPU-5ec2e7aa-1111-2222-3333-444455556666"
KEY = "tok-secret-1234"
BUCKET = "s3://bucket-secret/data"
ADDRESS = "10.11.12.13"
PROGRAM = "python scene_secret.py"

SECRETS = (USER, OTHER, "host-secret", UUID, KEY, "bucket-secret", ADDRESS, "scene_secret")
"""None of them may be left."""

IN_TRACES = tuple(one for one in SECRETS if one not in (OTHER, KEY, "scene_secret"))
"""Of a trace nothing tells what its command line was, and what else ran."""

SENTENCE = (
    f"Other programs take 1.2 cores (pid 4123 {PROGRAM}), on {HOST}, at /home/{OTHER}/x y/z.py:3, "
    f"by {USER}@{HOST} at {ADDRESS} with {KEY}"
)


def planted_run(folder: Path) -> Path:
    """A run whose manifest, journals, paths and window hold them."""
    project = folder / "home" / USER / "pro ject"
    project.mkdir(parents=True)
    script = project / "train.py"
    script.write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(pictures):\n"
        "    return DataLoader(pictures, batch_size=128, shuffle=True)\n"
    )
    os.utime(script, ns=(START - 10**9, START - 10**9))
    command = ("/usr/bin/env", f"WANDB_API_KEY={KEY}", "python", str(script), "--lr", "0.1")
    root = write_run(
        project / ".perftui" / "runs",
        script=script,
        loader_line=5,
        host=HOST,
        cwd=str(project),
        command=(*command, "--hf-token", f"{KEY}-2", "--data", BUCKET, "--master", ADDRESS),
        name=f"run of {USER}",
        pid=987_654,
        notes=(f"{HOST}: the recorder of {USER} died", f"{project}/x y.txt cannot be read"),
        profile=_profile(),
        **ENDED,
    )
    layout = RunLayout(root)
    _write_journals(layout, str(project))
    window = layout.rank(0).window(3)
    window.parent.mkdir(parents=True)
    planted_trace(window, str(project), is_of_run=True)
    return root


def _profile() -> dict[str, Any]:
    process = {"pid": 4124, "program": PROGRAM, "user": OTHER, "memory": 2**30}
    return {
        "profile": True,
        "other_programs": {
            HOST: {"seconds": 9, "cores": {PROGRAM: 1.2}, "pids": {PROGRAM: [4123]}}
        },
        "gpu_devices": {HOST: [{"prefix": "gpu0", "name": "NVIDIA H200", "uuid": UUID}]},
        "gpu_processes": {HOST: {"gpu0": [process]}},
        "not_sampled": {HOST: {"disk": f"/home/{USER}/data is not counted"}},
        "data_disk": {HOST: {"disk": "sda", "place": f"/home/{USER}", "found_by": "data"}},
    }


def _write_journals(layout: RunLayout, project: str) -> None:
    events = JournalWriter(layout.rank(0).events, EVENT_COLUMNS)
    events.append([[START, "error", 0, -1, {"message": f"{project}/a.py of {USER} on {HOST}"}]])
    events.append([[START, "settings", 1, -1, {"devices": {"uuids": [UUID]}}]])
    events.close()
    stacks = JournalWriter(layout.rank(0).stacks, STACK_COLUMNS)
    given = {
        "file": f"/home/{OTHER}/lib dir/loader.py",
        "line": 3,
        "function": f"load_{KEY}",
        "inner": f"/home/{USER}/inner.py:9 read",
        "via": f"/home/{USER}/via.py read",
        "held": SECOND // 10,
        "every": SECOND // 10,
    }
    rows = []
    for number in range(300):
        row = {**given, "time": START + 9 * SECOND + number * SECOND // 10}
        rows.append([row.get(column.name, 0) for column in STACK_COLUMNS])
    stacks.append(rows)
    stacks.close()


def planted_trace(
    path: Path, project: str = "/home/alice-secret/proj", *, is_of_run: bool = False
) -> Path:
    """A Kineto trace with names, arguments and fields that hold them."""
    built = TraceBuilder(
        fields={
            "hostname": HOST,
            "traceName": f"{project}/trace.json",
            "note": f"{KEY} {SENTENCE}" if is_of_run else "",
            "deviceProperties": [
                {"id": 0, "name": "H200", "uuid": UUID, "serial": "serial-secret"}
            ],
        }
    )
    for _ in range(4):
        built.step().data_wait(ms(5)).forward().op(f"range of {USER} at {project}/train.py(3): f")
        built.op(f"copy {BUCKET} from {ADDRESS}").close()
        built.launch("gemm", ms(3)).close().sync().end()
    return built.write(path)


def planted_report(path: Path) -> Report:
    """The report of it, of a run with a finding and a reason that hold them too."""
    report = make_report(load_subject(path))
    if report.subject.run is None:
        return report
    place = Place(file=f"/home/{OTHER}/x y/z.py", line=3, operator=f"op {USER}")
    finding = Finding(
        "busy-host",
        Severity.INFO,
        SENTENCE,
        (Figure(f"pid 4123 {PROGRAM}, of a core", 120, "%"), Figure("line", SENTENCE, place=place)),
        cost_ns=10,
        step_ns=1000,
        place=place,
        would_raise_confidence=SENTENCE,
    )
    diagnosis = replace(
        report.diagnosis,
        findings=(*report.diagnosis.findings, finding),
        abstentions=(*report.diagnosis.abstentions, Abstention("gaps", SENTENCE)),
    )
    return replace(report, diagnosis=diagnosis)
