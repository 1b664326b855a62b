"""Steps that take longer than others, or than those of earlier runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity, write_findings
from perftui.diagnosis.symptoms.step.slow_steps import _ended_before
from perftui.facts.fact import Facts
from perftui.run.columns import COMPILE, EVENT_COLUMNS, FORWARD, SAVE
from perftui.run.layout import RunLayout
from perftui.run.manifest import Override, Status, write_manifest
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from tests.core.diagnosis.runs import (
    MS,
    Events,
    Seen,
    event_table,
    joined,
    make_run,
    pauses,
    run_of,
    source_of,
    stacks_of,
    step_table,
    telemetry_table,
    with_tables,
)
from tests.core.diagnosis.stories import diagnosed, finding_of, found, reasons
from tests.core.diagnosis.test_cpu import beside
from tests.step_rows import table_of

USUAL = {"forward": 10, "backward": 10}
TURN = 24 * 20
"""24 usual steps, ms."""


def every_25th(turns: int = 4, **more: float) -> Table:
    slow = {name: USUAL.get(name, 0) + more.get(name, 0) for name in (*USUAL, *more)}
    return joined(*[step_table(24, USUAL), step_table(1, slow)] * turns)


def saving(length: float, line: int = 20, stage: str = SAVE) -> RunSnapshot:
    """Every 25th step takes so many ms more, in which it saves."""
    turn = TURN + 20 + length
    seen = [Seen(n * turn + TURN + 20, length, line, stage) for n in range(4)]
    seen += [Seen(n * turn, TURN, 12, FORWARD, via="torch/nn/modules") for n in range(4)]
    return run_of(every_25th(other=length), *seen)


def test_what_checkpoints_take_comes_first() -> None:
    assert diagnosed(saving(1000)).top.rule == "slow-steps"
    assert finding_of(saving(27), "checkpoint").cost_ns == round(27 / 25 * MS)
    assert diagnosed(saving_calls(500)).top.rule == "checkpoint"


def saving_in_each() -> RunSnapshot:
    steps = step_table(60, {"forward": 60, "other": 40})
    seen = [Seen(100 * n + 60, 40, 30, SAVE) for n in range(60)]
    seen += [Seen(100 * n, 60, 12, FORWARD) for n in range(60)]
    return run_of(steps, *seen)


def test_slow_steps_without_a_cause_are_placed_where_the_script_is() -> None:
    finding = finding_of(saving(1000, line=31, stage=""), "slow-steps")
    assert finding.sentence.endswith("the time is in the script's own code, mostly at train.py:31.")
    turn = TURN + 20 + 900
    seen = [Seen(n * turn, TURN, 12, FORWARD, via="torch/nn/modules") for n in range(4)]
    for line in (31, 32, 33):
        start = TURN + 20 + 300 * (line - 31)
        seen += [Seen(n * turn + start, 300, line, function="make") for n in range(4)]
    finding = finding_of(run_of(every_25th(other=900), *seen), "slow-steps")
    assert finding.sentence.endswith("the script's own code, mostly in make (train.py:31).")


def evaluating_within(script: Path | None = None) -> RunSnapshot:
    """Every 25th step calls the model 50 times more; ``script`` is what was run."""
    notes = (("process", {"argv0": str(script)}),) if script else ()
    return run_of(every_25th(forward=500), events=event_table(events=notes))


def test_only_the_steps_that_evaluate_are_counted_as_evaluation() -> None:
    """They count what they got right as well, and other steps are a little slow for no reason."""
    noisy = step_table(16, {"forward": 8, "backward": 22, "optimizer": 2})
    finding = finding_of(run_of(joined(every_25th(forward=350, other=140), noisy)), "evaluation")
    assert "4 steps take longer in forward passes" in finding.sentence
    steps = 100 + 16
    assert finding.cost_ns == 4 * 490 * MS // steps


@pytest.mark.parametrize(
    ("said_there", "end"),
    [("", ": torch.no_grad() is missing."), ("@no_grad()", " alone (train.py:2).")],
)
def test_a_script_that_never_says_no_grad_lacks_it(tmp_path, said_there, end) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import torch\n{said_there}\n")
    assert finding_of(evaluating_within(script), "evaluation").sentence.endswith(end)


def test_one_step_of_evaluation_at_the_end_hides_no_others() -> None:
    steps = joined(every_25th(forward=500), step_table(1, {"forward": 40}, kind="eval"))
    finding = finding_of(run_of(steps), "evaluation")
    assert finding.cost_ns == 20 * MS


def in_folder(folder: Path) -> dict[str, Any]:
    """What a run says whose ``train.py`` is in there."""
    return {"cwd": str(folder), "events": event_table(events=(("process", {"argv0": "train.py"}),))}


def evaluating(count: int, **run: Any) -> RunSnapshot:
    """25 training steps of 20 ms and so many of evaluation of 10 ms, 4 times."""
    turn = joined(step_table(25, USUAL), step_table(count, {"forward": 10}, kind="eval"))
    length = 500 + count * 10
    seen = [Seen(n * length + 500 + i * 100, 100, 51) for n in range(4) for i in range(count // 10)]
    return run_of(joined(*[turn] * 4), *seen, **run)


@pytest.mark.parametrize(("size", "is_told"), [(1, True), (64, False)])
def test_a_loader_that_evaluates_one_by_one_is_named(size: int, is_told: bool) -> None:
    made = {"id": 1, "batch_size": size, "file": "/p/train.py", "line": 43}
    events = event_table(made, {"id": 1, "role": "eval"})
    advice = finding_of(evaluating(50, events=events), "evaluation").advice
    assert ("train.py:43 has batch_size=1" in advice) is is_told


def preparing(count: int) -> Table:
    """So many forward passes of 10 ms, such as those that make features, then 25 training steps."""
    return joined(step_table(count, {"forward": 10}, kind="eval"), step_table(25, USUAL))


def test_a_sample_that_began_in_training_names_no_line_of_evaluation() -> None:
    run = evaluating(50)
    stacks = [Seen(n * 1000 + 450, 500, 36) for n in range(4)]
    stacks += [Seen(n * 1000 + 950, 50, 51) for n in range(4)]
    stacks += [Seen(3990, 5, 51), Seen(3995, 5, 52)]
    run = with_tables(run, stacks=stacks_of(*stacks))
    assert source_of(finding_of(run, "evaluation")) == "/p/train.py:51"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("model.eval()", "train.py:2"),
        ("student.eval(), teacher.eval()\nteacher.eval()\nwith torch.no_grad():", "train.py:4"),
        ("with torch.no_grad():\nwith torch.no_grad():", None),
    ],
    ids=["the only one", "several", "neither"],
)
def test_evaluation_without_samples_is_where_the_text_says_so(
    tmp_path: Path, text: str, place: str | None
) -> None:
    (tmp_path / "train.py").write_text(f"import torch\n{text}\n    pass\n")
    script = str(tmp_path / "train.py")
    stacks = stacks_of(*(Seen(at * 100, 100, 1, file=script) for at in range(4)))
    run = with_tables(evaluating(50, **in_folder(tmp_path)), stacks=stacks)
    source = source_of(finding_of(run, "evaluation"))
    assert (source.rpartition("/")[2] if source else None) == place


def compiling(share: float, **run: Any) -> RunSnapshot:
    steps = step_table(60, {"forward": 100})
    seen = [Seen(100 * n, 100 * share, 17, COMPILE) for n in range(60)]
    seen += [Seen(100 * (n + share), 100 * (1 - share), 17, FORWARD) for n in range(60)]
    return run_of(steps, *seen, **run)


def compiling_now_and_then(every: int) -> RunSnapshot:
    """400 steps, the first of so many of which compiles."""
    seen = [Seen(100 * n, 100, 17, FORWARD if n % every else COMPILE) for n in range(400)]
    return run_of(step_table(400, {"forward": 100}), *seen)


def compiled(
    length: float, start: float | None = 0, steps: int = 60, **note: object
) -> RunSnapshot:
    """60 steps of 100 ms; the first ``steps`` compile for so long from 10 ms after ``start`` on."""
    file = {"file": "/p/model.py", "line": 5, "function": "attend", "reason": "size 16, now 17"}
    rows = []
    for step in range(steps):
        begins = None if start is None else round((100 * step + start + 10) * MS)
        data = {**file, "start": begins, "forward": True, **note}
        rows.append([100 * step * MS, "compile", round(length * MS), step, data])
    return run_of(step_table(60, {"forward": 100}), events=table_of(EVENT_COLUMNS, rows))


def test_what_torch_tells_of_compiling_is_exact_without_samples() -> None:
    finding = finding_of(compiled(50), "recompiles")
    assert finding.sentence == (
        "torch.compile takes 50 ms of each 100 ms step (50 %) after the warm-up: it recompiles for "
        'model.py:5 in 60 of 60 steps, last because of "size 16, now 17".'
    )
    assert (finding.cost_ns, source_of(finding)) == (50 * MS, "/p/model.py:5")
    assert {"compiled": 60, "again": 60, "function": "attend"}.items() <= {
        figure.label: figure.value for figure in finding.facts
    }.items()


def test_a_function_of_torchs_own_is_no_place() -> None:
    own = "/site-packages/torch/_dynamo/external_utils.py"
    assert source_of(finding_of(compiled(50, file=own), "recompiles")) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("model = torch.compile(model)  # once", "train.py:2"),
        ("model, loss = torch.compile(model), 0\n@torch.compile", "/p/train.py:17"),
    ],
    ids=["one", "several"],
)
def test_the_only_call_of_the_compiler_is_the_place(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "train.py").write_text(f'"""Tries torch.compile."""\n{text}\ndef f(): pass\n')
    finding = finding_of(compiling(0.5, **in_folder(tmp_path)), "recompiles")
    assert source_of(finding).endswith(place)


def test_compilers_are_known_in_runs_that_recorded_no_stages() -> None:
    inner = "torch/_dynamo/guards.py:2291 GuardBuilder.EQUALS_MATCH"
    seen = [Seen(100 * n, 100, 17, inner=inner) for n in range(60)]
    finding = finding_of(run_of(step_table(60, {"forward": 100}), *seen), "recompiles")
    assert finding.cost_ns == 100 * MS


def collecting(length: float, inner: str = "", more: Events = (), **run: Any) -> RunSnapshot:
    """60 steps of 100 ms, in each a full collection of so many ms at line 21."""
    events = pauses(*((100 * n + 50.0, length, 2) for n in range(60)), more=more)
    seen = [Seen(100 * n + 50, 50, 21, inner=inner) for n in range(60)]
    seen += [Seen(100 * n, 50, 12, FORWARD) for n in range(60)]
    return run_of(step_table(60, {"forward": 50, "other": 50}), *seen, events=events, **run)


def test_short_collections_are_named_and_few_large_ones_count_as_the_mean() -> None:
    run = collecting(30)
    short = [(100 * n + 20, 6, 1) for n in range(50)]
    mixed = with_tables(run, events=pauses((250, 900, 2), *short))
    sentence = finding_of(mixed, "gc-pauses").sentence
    assert "1 full collection of 900 ms and 50 short ones in 60 steps" in sentence
    finding = finding_of(with_tables(run, events=pauses((250, 900, 2))), "gc-pauses")
    assert (finding.cost_ns, finding.severity) == (15 * MS, Severity.WARNING)


@pytest.mark.parametrize(("thresholds", "place"), [((700, 10, 2), ":2"), ((2000, 10, 0), ":21")])
def test_a_threshold_that_the_script_lowers_is_the_place(
    tmp_path: Path, thresholds: tuple[int, ...], place: str
) -> None:
    (tmp_path / "train.py").write_text("import gc\ngc.set_threshold(50, 10, few)\n")
    more = (("process", {"argv0": "train.py"}), ("settings", {"gc": {"thresholds": thresholds}}))
    run = collecting(30, more=more, cwd=str(tmp_path))
    assert source_of(finding_of(run, "gc-pauses")).endswith(place)


def test_collections_within_the_scripts_own_profiler_are_time_of_the_profiler() -> None:
    # In the words of an earlier version.
    told = {"message": "the script runs a profiler of its own: meanwhile there are no windows"}
    inner = "torch/autograd/profiler.py:418 profile.__exit__"
    judged = diagnosed(collecting(30, inner, (("warning", told),)))
    assert [one.rule for one in judged.findings if one.cost_ns] == ["profiler-overhead"]


def saved(*rows: tuple[float, float, int], trains: bool = True, size: int = 0) -> Table:
    """Notes of ``torch.save``: start and length in ms, and during which step; of a model of 1,000
    parameters."""
    data = {"count": 1, "file": "/p/train.py", "line": 30, "trains": trains, "bytes": size}
    parameters = [{"dtype": "float32", "device": "cpu", "elements": 1000}]
    notes: list[list[Any]] = [[0, "settings", 0, 0, {"parameters": parameters}]]
    notes += [
        [round((start + length) * MS), "save", round(length * MS), step, data]
        for start, length, step in rows
    ]
    return table_of(EVENT_COLUMNS, notes)


def saving_calls(length: float, trains: bool = True, size: int = 0) -> RunSnapshot:
    """Every 25th step takes so many ms more, in which it calls ``torch.save``; no samples."""
    turn = TURN + 20 + length
    rows = [(n * turn + TURN + 20, length, 25 * n + 24) for n in range(4)]
    return run_of(every_25th(other=length), events=saved(*rows, trains=trains, size=size))


def test_a_file_much_larger_than_model_and_optimizer_holds_something_else() -> None:
    assert "files" not in finding_of(saving_calls(500, size=32_000), "checkpoint").sentence
    finding = finding_of(saving_calls(500, size=40_000_000), "checkpoint")
    told = ", files of 38.1 MiB, where weights and optimizer need 15.6 KiB at most."
    assert finding.sentence.endswith(told)
    assert finding.advice.startswith("save weights and optimizer alone")


SLOW = step_table(1, {"forward": 10, "backward": 600})
NOW_AND_THEN = joined(*(joined(step_table(usual, USUAL), SLOW) for usual in (20, 31, 27, 22)))
"""Steps that are slow in no rhythm, within the model, with nothing that would say why."""


@pytest.mark.parametrize(("used", "is_busy"), [(1.5, False), (1.7, True)])
def test_steps_that_are_slow_now_and_then_on_a_busy_host_are_no_fault(
    used: float, is_busy: bool
) -> None:
    others = {"cpu.utilization": 100 * (used + 0.5) / 8, "processes.cpu": 50.0, "cpu.cores": 8.0}
    run = run_of(NOW_AND_THEN, telemetry=telemetry_table(**others))
    assert (found(run, "slow-steps") is None) is is_busy
    if is_busy:
        assert reasons(run)["slow-steps"] == "other programs used 1.7 of 8 cores"
    own = with_tables(beside(**{"processes.delayed": 50.0 * used}).run, steps=NOW_AND_THEN)
    assert found(own, "slow-steps") is None


HOUR = 3_600_000_000_000


def run(root: Path, step: float = 10, **manifest: Any) -> RunSnapshot:
    """A run of 40 steps of so many ms, half of them waiting, at the hour that its name tells."""
    begun = int(root.name) * HOUR
    made = make_run(phases={"input_wait": step / 2, "forward": step / 2}, root=root)
    told = {"started_ns": begun, "ended_ns": begun + HOUR // 2, "torch_version": "2.12.0"}
    return replace(made, manifest=replace(made.manifest, **{**told, **manifest}))


def keep(root: Path, step: float = 10, **manifest: Any) -> None:
    """The run as it is kept."""
    root.mkdir()
    ended = run(root, step, **manifest)
    write_manifest(RunLayout(root).manifest, ended.manifest)
    write_findings(RunLayout(root).findings, diagnosis(Facts(ended)))


def slower(root: Path, step: float, **manifest: Any) -> Finding | None:
    _ended_before.cache_clear()
    return found(run(root, step, **manifest), "slower-than-before")


def test_it_is_reported_with_what_has_changed(tmp_path: Path) -> None:
    for hour, step in ((1, 9.0), (2, 10.0), (3, 14.0)):
        keep(tmp_path / str(hour), step)
    finding = slower(tmp_path / "5", 12, torch_version="2.13.0", cpu_count=4)
    assert finding.sentence == (
        "The mean step takes 12 ms, against 10 ms in 3 earlier runs of the same command: changed "
        "since the last of them: PyTorch's version and the usable cores."
    )
    assert (finding.rule, finding.severity, finding.cost_ns) == (
        "slower-than-before",
        Severity.INFO,
        0,
    )
    assert [figure.value for figure in finding.facts[2:]] == ["2.12.0", "8"]


def test_where_nothing_has_changed_it_says_so(tmp_path: Path) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2")
    finding = slower(tmp_path / "3", 30)
    assert finding.severity is Severity.INFO
    assert "nothing on record has changed" in finding.sentence


@pytest.mark.parametrize(("step", "has_finding"), [(11, True), (10.9, False), (5, False)])
def test_from_a_tenth_above_on(tmp_path: Path, step: float, has_finding: bool) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2")
    assert (slower(tmp_path / "3", step) is not None) is has_finding


@pytest.mark.parametrize(
    "other",
    [
        {"command": ("python", "train.py", "--batch=64")},
        {"host": "elsewhere"},
        {"overrides": (Override("DataLoader", {"num_workers": 4}),)},
        {"ended_ns": 9 * HOUR},
        {"ended_ns": None},
    ],
    ids=["command", "host", "overrides", "overlapping", "not ended"],
)
def test_other_runs_are_not_compared(tmp_path: Path, other: dict[str, Any]) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2", **other)
    assert slower(tmp_path / "3", 20) is None


def test_a_live_run_and_damaged_ones_are_left_alone(tmp_path: Path) -> None:
    keep(tmp_path / "1")
    keep(tmp_path / "2")
    assert slower(tmp_path / "3", 20, status=Status.RUNNING) is None
    (tmp_path / "2" / "findings.json").write_text("{")
    assert slower(tmp_path / "3", 20) is None
    assert slower(tmp_path / "gone" / "3", 20) is None
