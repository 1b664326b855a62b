"""The training waits for data, or computes on padding."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Confidence, Diagnosis, Finding, Severity
from perftui.facts.fact import Facts
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from tests.core.diagnosis.runs import (
    MS,
    joined,
    make_run,
    step_table,
    telemetry_table,
    with_tables,
    worker_table,
)
from tests.core.diagnosis.stories import diagnosed, finding_of, reasons, top_of, waiting
from tests.core.diagnosis.test_workers import DATA, main_table, table
from tests.traces.builder import WORKERS, TraceBuilder, ms

LOADER: dict[str, Any] = {
    "id": 1,
    "role": "train",
    "num_workers": 2,
    "persistent_workers": True,
    "file": "train.py",
    "line": 4,
}
STEPS = {"forward": 20, "input_wait": 80}


def worker(number: int = 0, busy: float = 1.0, cpu: float = 1.0, **other: float) -> dict[str, int]:
    """A second of a worker that makes ten batches; ``other`` are shares of what it makes them in,
    or counts."""
    making = round(1000 * busy) * MS
    shares = {"delayed": 0.0, "others": 0.0} | {
        name: other.pop(name) for name in ("delayed", "others") if name in other
    }
    row = {
        "time": 5_000 * MS,
        "worker": number,
        "pid": 7 + number,
        "batches": 10,
        "fetch": making,
        "squares": 10 * (making // 10 // 1000) ** 2,
        "watched": making,
        "cpu": round(cpu * making),
        "threads": 3 * 1000 * MS,
        **{name: round(share * making) for name, share in shares.items()},
    }
    return {**row, **{name: round(value) for name, value in other.items()}}


def run_of(
    *rows: dict[str, int], steps: Table | None = None, cores: int = 8, **loader: Any
) -> RunSnapshot:
    return make_run(
        steps=steps if steps is not None else step_table(100, STEPS),
        workers=worker_table(*rows),
        cpu_count=cores,
        loaders=({**LOADER, **loader},),
    )


def judged(run: RunSnapshot) -> Diagnosis:
    return diagnosis(Facts(run, None))


def top(*rows: dict[str, int], **given: Any) -> Finding:
    return top_of(run_of(*rows, **given))


def test_workers_that_compute_are_bound_by_the_processor() -> None:
    stacks = table((0, 9_000, "fetch", 8))
    run = run_of(worker(0, cpu=0.9), worker(1, cpu=0.9))
    found = judged(with_tables(run, worker_stacks=stacks)).top
    assert (found.rule, found.severity) == ("input-worker-bound", Severity.CRITICAL)
    assert found.sentence == (
        "The training spends 80 ms of each 100 ms step (80 %) waiting for data: 2 workers "
        "compute all the time while making batches, 100 % of it at data.py:8."
    )
    assert found.cost_ns == 80 * MS
    assert found.place.source == f"{DATA}:8"
    assert "input_wait" in found.parts
    assert found.fixes == ("loader-workers",)


def test_waiting_for_a_core_is_no_waiting_for_a_disk() -> None:
    found = top(worker(0, cpu=0.3, delayed=0.65))
    assert found.rule == "input-worker-bound"
    assert "(65 % waiting for a core)" in found.sentence


def test_workers_that_wait_are_bound_by_what_they_read() -> None:
    reads = {"read": 80_000_000, "asked": 80_000_000, "reads": 40}
    found = top(worker(0, cpu=0.1, **reads), mount="/data", filesystem="ext4", path="/data/a")
    assert found.rule == "input-disk-bound"
    assert found.sentence.endswith(
        "while making batches, 2 workers wait 90 % of the time for the disk (ext4 at /data): 76.3 "
        "MiB a second."
    )
    assert found.place.source == "train.py:4"


@pytest.mark.parametrize(
    ("use", "loader", "said"),
    [
        ({"reads": 900, "asked": 9000 * 900}, {}, "for files, 900 reads of 8.8 KiB a second."),
        ({}, {"mount": "/mnt/a", "filesystem": "nfs4"}, "another machine (nfs4 at /mnt/a)."),
        ({}, {"path": "s3://a/b", "filesystem": "s3"}, "another machine (s3 at s3://a/b)."),
        ({"read": 9e6, "faults": 500}, {}, "that do not fit in memory (8.6 MiB a second)."),
        ({}, {}, "for a network, a lock or a clock instead of computing."),
    ],
    ids=["small files", "mount", "url", "page faults", "unknown"],
)
def test_what_workers_wait_for_is_named(
    use: dict[str, float], loader: dict[str, Any], said: str
) -> None:
    found = top(worker(0, cpu=0.1, **use), **loader)
    assert found.rule == "input-disk-bound"
    assert found.sentence.endswith(said)


def test_files_that_are_read_for_the_first_time_are_no_fault() -> None:
    cold = joined(step_table(200, STEPS), step_table(150, {"forward": 20, "input_wait": 0.5}))
    rows = [
        {**worker(0, cpu=0.1, read=40e6 if at < 4 else 0), "time": (at + 11) * 1000 * MS}
        for at in range(12)
    ]
    found = judged(run_of(*rows, steps=cold))
    assert not [one for one in found.findings if one.rule.startswith("input")]
    assert "read for the first time" in reasons(found)["input-bound"]


Rows = list[dict[str, int]]


def crowded(delayed: float = 0.4) -> Rows:
    """Four workers with four threads each: with the training they ask for 14.6 cores."""
    threads = 6 * 1000 * MS
    return [worker(at, cpu=0.5, delayed=delayed, others=1.0, threads=threads) for at in range(4)]


def test_workers_with_threads_of_their_own_and_the_training_want_too_many_cores() -> None:
    rows = crowded()
    found = top(*rows, cores=2, num_workers=4)
    assert found.rule == "workers-oversubscribed"
    assert found.sentence.endswith(
        "4 workers, each with 4 threads, and the training could use 14.6 cores and have 2: a "
        "worker waits 40 % of its time for a core."
    )
    assert found.fixes == ()
    run = run_of(*rows, cores=2, num_workers=4)
    found = judged(replace(run, telemetry={"box": telemetry_table(**{"processes.delayed": 10.0})}))
    assert found.top.rule == "workers-oversubscribed"
    assert found.top.sentence.endswith(
        "; the training waits for a core 10 ms of each 100 ms step (10 %)."
    )
    assert found.top.cost_ns == 90 * MS
    assert set(found.top.parts) == {"input_wait", "forward"}


def test_workers_are_too_many_only_on_cores_that_nobody_else_takes() -> None:
    found = top(worker(0, cpu=0.7, delayed=0.3), worker(1, cpu=0.7, delayed=0.3), cores=4)
    assert found.rule == "input-worker-bound"
    run = run_of(*(worker(at, cpu=0.3, delayed=0.7) for at in range(4)), cores=2, num_workers=4)
    others = {"cpu.utilization": 100.0, "processes.cpu": 40.0, "cpu.cores": 2.0}
    assert judged(run).top.rule == "workers-oversubscribed"  # type: ignore[union-attr]
    busy = replace(run, telemetry={"box": telemetry_table(**others)})
    assert judged(busy).top.rule == "input-worker-bound"  # type: ignore[union-attr]


def test_handing_over_is_told_by_the_training_by_workers_or_by_what_nobody_makes() -> None:
    found = top(worker(0, busy=0.2), steps=step_table(100, STEPS, input_cpu=60 * MS))
    assert found.rule == "input-handover"
    assert found.sentence.endswith(
        "for 75 % of that time it unpacks what 2 workers hand over; without workers "
        "(num_workers=0) a step would take about 40 ms."
    )
    assert top(worker(0), steps=step_table(100, STEPS, input_cpu=30 * MS)).rule != found.rule
    found = top(*(worker(at, busy=0.3, others=1.5) for at in range(4)))
    assert found.rule == "input-handover"
    assert found.sentence.endswith(
        "a worker takes longer to hand over a batch than to make it; without workers "
        "(num_workers=0) a step would take about 50 ms."
    )
    found = top(worker(0, busy=0.1), worker(1, busy=0.1))
    assert found.rule == "input-handover"
    assert found.sentence.endswith(
        "2 workers make batches in only 10 % of the time, and hand them over in the rest; "
        "without workers (num_workers=0) a step would take about 30 ms."
    )
    assert (found.place.source if found.place else None) == "train.py:4"
    assert top(worker(0, busy=0.25), worker(1, busy=0.25)).rule != found.rule


def test_the_line_that_puts_the_many_tensors_of_a_batch_together_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def collate(rows):\n    return list(rows)\n")
    steps, rows = step_table(100, STEPS, input_cpu=60 * MS), worker_table(worker(0, busy=0.2))
    loader = {**LOADER, "collate_fn": "__main__.collate"}
    events = (("process", {"argv0": str(tmp_path / "train.py")}),)
    found = top_of(make_run(steps=steps, workers=rows, loaders=(loader,), events=events))
    assert (found.rule, found.place and found.place.line) == ("input-handover", 2)


def test_where_others_take_the_cores_nothing_is_said_of_handing_over() -> None:
    run = run_of(worker(0, busy=0.1), worker(1, busy=0.1), cores=2)
    others = {"cpu.utilization": 100.0, "processes.cpu": 40.0, "cpu.cores": 2.0}
    found = judged(replace(run, telemetry={"box": telemetry_table(**others)})).top
    assert found.rule == "input-bound"
    assert found.sentence.endswith("of the time, and other programs used 1.6 of 2 cores.")
    # It may well be they alone that workers and training wait for.
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(("busy", "has_finding"), [(0.63, True), (0.64, False)])
def test_no_workers_are_better_where_they_save_a_sixth_of_the_step(busy, has_finding) -> None:
    """A batch takes 100 ms to make where a worker is always busy; all else takes 20 of 100 ms."""
    found = top(worker(0, busy=busy), steps=step_table(100, STEPS, input_cpu=60 * MS))
    assert found.rule == "input-handover"
    assert ("without workers" in found.sentence) is has_finding


def test_a_slow_worker_or_a_few_long_batches_hold_up_the_others() -> None:
    found = top(worker(0, busy=0.1), worker(1, busy=0.9))
    assert found.rule == "input-uneven"
    assert found.sentence.endswith("worker 1 takes 9.0 times as long for a batch as the others.")
    assert top(worker(0, busy=0.5), worker(1, busy=0.9)).rule != "input-uneven"
    uneven = {**worker(0, busy=0.5), "squares": 10 * 150_000**2}
    found = top(uneven)
    assert found.rule == "input-uneven"
    assert "9.0 times as long as the mean one" in found.sentence
    assert top({**uneven, "fetch": 990 * MS, "squares": 10 * 300_000**2}).rule != "input-uneven"


def test_neither_first_batches_of_epochs_nor_a_few_make_a_worker_uneven() -> None:
    epoch = joined(
        step_table(1, {"input_wait": 900, "forward": 20, "loader_start": 1}),
        step_table(9, {"input_wait": 0.1, "forward": 20}),
    )
    found = top(worker(0, busy=0.1), worker(1, busy=0.9), steps=joined(*[epoch] * 20))
    assert found.rule != "input-uneven"
    slow = {**worker(1, busy=0.9), "batches": 9, "fetch": 810 * MS}
    assert top(worker(0, busy=0.1), slow).rule != "input-uneven"
    alone = {**worker(0, busy=0.5), "batches": 9, "squares": 10 * 150_000**2}
    assert top(alone).rule != "input-uneven"


def bursts(every: int, wait: float = 100) -> Table:
    one = joined(
        step_table(1, {"forward": 20, "input_wait": wait}),
        step_table(every - 1, {"forward": 20, "input_wait": 0.1}),
    )
    return joined(*[one] * (240 // every))


def test_batches_that_come_in_bursts() -> None:
    found = top(worker(0, busy=0.6, cpu=0.5), steps=bursts(4))
    assert found.rule == "input-bursty"
    assert "every 4 steps the training waits long, and hardly at all in between" in found.sentence
    # Workers that are busy all the time make no more, however deep the queue is.
    busy = worker(0, busy=0.95), worker(1, busy=0.95)
    assert top(*busy, steps=bursts(4)).rule == "input-worker-bound"
    # Where other programs take the cores, whoever waits for one makes batches in bursts, too.
    run = run_of(worker(0, busy=0.6, cpu=0.5), steps=bursts(4), cores=2)
    others = {"cpu.utilization": 100.0, "processes.cpu": 40.0, "cpu.cores": 2.0}
    beside = judged(replace(run, telemetry={"box": telemetry_table(**others)}))
    assert "input-bursty" in {one.rule for one in beside.abstentions}


def test_rare_waits_are_reported_by_when_they_come() -> None:
    kept = [worker(0, busy=0.3)]
    waits = joined(
        step_table(1, {"input_wait": 3000, "forward": 10, "loader_start": 1}),
        step_table(39, {"input_wait": 0.1, "forward": 10}),
    )
    steps = joined(waits, waits, waits)
    found = top(*kept, steps=steps)
    assert found.sentence.endswith(
        "nearly all of it in fewer than one step in twenty: those that begin an epoch, when the "
        "queue is empty."
    )
    assert "persistent_workers" not in found.sentence
    assert found.fixes == ()
    anew = top(*kept, steps=steps, persistent_workers=False)
    assert "unless persistent_workers=True keeps them" in anew.sentence


def test_a_thread_that_fetches_by_itself_may_wait_for_files() -> None:
    own = {**worker(-1, cpu=0.2), "worker": -1}
    steps = step_table(100, STEPS, input_cpu=8 * MS)
    assert (
        "waits for files or a network for 90 % of that"
        in top(own, num_workers=0, steps=steps).sentence
    )
    starved = {**worker(-1, cpu=0.1, delayed=0.9), "worker": -1}
    assert "files" not in top(starved, num_workers=0, steps=steps).sentence


def test_a_loader_that_starts_with_every_step() -> None:
    found = top(worker(0, busy=0.3), steps=step_table(60, {"loader_start": 60, "forward": 40}))
    assert found.rule == "loader-start"
    assert "every step starts a new epoch" in found.sentence
    assert found.fixes == ()
    assert found.place.source == "train.py:4"


def test_ending_the_workers_of_an_iterator_belongs_to_its_start() -> None:
    steps = step_table(100, {"loader_start": 40, "forward": 30, "other": 30})
    stacks = main_table((0, 7_500, "", 9), (7_500, 2_500, "", 9))
    via = np.array(["", "torch/utils/data/dataloader.py _MultiProcessingDataLoaderIter.__del__"])
    stacks = Table(stacks.columns, {**stacks.values, "via": via.astype(object)})
    found = judged(with_tables(run_of(worker(0, busy=0.3), steps=steps), stacks=stacks))
    assert found.findings[0].rule == "loader-start"
    assert found.findings[0].cost_ns == pytest.approx(65 * MS, rel=0.05)
    assert found.findings[0].sentence.startswith(
        "Starting the loader again, and ending its workers, takes 6"
    )


def test_a_loader_that_is_made_anew_keeps_no_worker() -> None:
    epoch = joined(
        step_table(1, {"loader_start": 900, "forward": 40}), step_table(9, {"forward": 40})
    )
    found = top(worker(0, busy=0.3), steps=joined(*[epoch] * 5))
    assert found.rule == "loader-start"
    assert "so its workers cannot stay" in found.sentence


def pair(one: float, other: float | None = None, **use: float) -> Rows:
    """Two workers that are busy for those shares of their time."""
    return [worker(0, busy=one, **use), worker(1, busy=one if other is None else other, **use)]


def packing(others: float) -> Rows:
    return [worker(at, busy=0.3, others=others) for at in range(4)]


def long_batches(root: int) -> Rows:
    """Ten batches of 50 ms in the mean, whose root of the mean square is so many us."""
    return [{**worker(0, busy=0.5), "squares": 10 * root**2}]


OF_FOUR = {"num_workers": 4}

NEAR: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("workers-oversubscribed",
     {"rows": crowded(), "cores": 12, **OF_FOUR}, {"rows": crowded(), "cores": 13, **OF_FOUR}),
    ("workers-oversubscribed",
     {"rows": crowded(0.2), "cores": 2, **OF_FOUR}, {"rows": crowded(0.19), "cores": 2, **OF_FOUR}),
    ("input-handover", {"rows": pair(0.19)}, {"rows": pair(0.2)}),
    ("input-handover",
     {"rows": pair(1), "steps": step_table(100, STEPS, input_cpu=40 * MS)},
     {"rows": pair(1), "steps": step_table(100, STEPS, input_cpu=39 * MS)}),
    ("input-handover", {"rows": packing(1.0)}, {"rows": packing(0.99)}),
    ("input-uneven", {"rows": pair(0.3, 0.6)}, {"rows": pair(0.3, 0.59)}),
    ("input-uneven", {"rows": long_batches(86_700)}, {"rows": long_batches(86_500)}),
    ("input-bursty",
     {"rows": pair(0.79, cpu=0.5), "steps": bursts(4)},
     {"rows": pair(0.8, cpu=0.5), "steps": bursts(4)}),
    ("input-bursty",
     {"rows": pair(0.6, cpu=0.5), "steps": bursts(4, wait=9)},
     {"rows": pair(0.6, cpu=0.5), "steps": bursts(4, wait=8)}),
    ("input-worker-bound", {"rows": pair(1, cpu=0.85)}, {"rows": pair(1, cpu=0.84)}),
    ("input-worker-bound", {"rows": pair(0.5)}, {"rows": pair(0.49)}),
    ("input-disk-bound", {"rows": pair(1, cpu=0.5)}, {"rows": pair(1, cpu=0.51)}),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "enough", "less"), NEAR)
def test_a_cause_is_named_from_its_limit_on(
    rule: str, enough: dict[str, Any], less: dict[str, Any]
) -> None:
    def said(given: dict[str, Any]) -> list[str]:
        known = dict(given)
        return [one.rule for one in judged(run_of(*known.pop("rows"), **known)).findings]

    assert said(enough)[0] == rule
    assert rule not in said(less)


CAUSES: dict[str, dict[str, Any]] = {
    "workers-oversubscribed": {"rows": crowded(), "cores": 2, **OF_FOUR},
    "input-uneven": {"rows": pair(0.3, 0.6)},
    "input-worker-bound": {"rows": pair(1)},
    "input-disk-bound": {"rows": pair(1, cpu=0.1)},
    "input-bound": {"rows": pair(1, cpu=0.7)},
}


@pytest.mark.parametrize("rule", CAUSES)
def test_a_tenth_of_the_step_is_a_warning_and_less_is_not_said(rule: str) -> None:
    known = dict(CAUSES[rule])
    rows = known.pop("rows")
    for wait, severity in (
        (20, Severity.CRITICAL),
        (19.9, Severity.WARNING),
        (10, Severity.WARNING),
    ):
        steps = step_table(100, {"forward": 100 - wait, "input_wait": wait})
        (found,) = judged(run_of(*rows, steps=steps, **known)).findings
        assert (found.rule, found.severity, found.cost_ns) == (rule, severity, round(wait * MS))
        assert found.place.source == "train.py:4"
    steps = step_table(100, {"forward": 90.1, "input_wait": 9.9})
    assert judged(run_of(*rows, steps=steps, **known)).findings == ()


@pytest.mark.parametrize("rule", sorted({rule for rule, *_ in NEAR}))
def test_without_rows_of_workers_no_cause_is_named(rule: str) -> None:
    steps = bursts(4) if rule == "input-bursty" else None
    assert [one.rule for one in judged(run_of(steps=steps)).findings] == ["input-bound"]
    untold = [{**row, "watched": 0, "threads": 0, "cpu": 0} for row in pair(0.6)]
    found = judged(run_of(*untold))
    assert [one.rule for one in found.findings] == ["input-bound"]
    if rule in ("workers-oversubscribed", "input-worker-bound", "input-disk-bound"):
        assert reasons(found)[rule] == "too little is known about what the workers use"


def test_a_trace_alone_tells_no_cause_of_workers() -> None:
    found = diagnosed(waiting(300, loader=WORKERS))
    assert [one.rule for one in found.findings] == ["input-bound"]


def starting(each: float) -> RunSnapshot:
    """Steps of 100 ms that begin with so many of starting the loader."""
    steps = step_table(100, {"loader_start": each, "forward": 100 - each})
    return run_of(worker(0, busy=0.3), steps=steps)


SINGLE_LOADER = {"id": 1, "file": "/p/train.py", "line": 7, "role": "train", "num_workers": 0}


def look(padded: int, spare: int = 0, tokens: int = 1000) -> dict[str, Any]:
    return {"key": "input_ids", "length": 100, "rows": tokens // 100, "tokens": tokens} | {
        "padded": padded,
        "spare": spare,
    }


def facts(
    *looks: dict[str, Any],
    operator: str = "aten::mm",
    loader: bool = True,
    computing: float = 8,
    script: Path | None = None,
) -> Facts:
    """A run of steps of 10 ms, so many of them computing."""
    notes = [("padding", one) for one in looks]
    if loader:
        notes.append(("loader", SINGLE_LOADER))
    if script is not None:
        notes.append(("process", {"argv0": str(script)}))
    story = TraceBuilder().repeat(
        4,
        lambda t: (
            t.step().forward().op(operator, ms(computing)).close().pause(ms(10 - computing)).end()
        ),
    )
    run = make_run(phases={"forward": computing, "other": 10 - computing}, events=tuple(notes))
    return Facts(run, story.analysis())


def test_the_share_of_padding_is_that_of_the_computing() -> None:
    one = finding_of(facts(look(900, 700), look(1800, 1000, tokens=2000)), "padding-waste")
    assert one.sentence == (
        "90 % of the tokens in a batch are padding: about 7.2 ms of each 10 ms step is spent on it."
    )
    assert (one.cost_ns, one.severity, one.confidence) == (
        7.2 * MS,
        Severity.CRITICAL,
        Confidence.MEDIUM,
    )
    assert one.would_raise_confidence == "whether the model computes padding"
    assert one.place.source == "/p/train.py:7"
    assert one.parts == ("forward",)
    figures = {figure.label: figure.value for figure in one.facts}
    assert figures["beyond the longest row of each batch"] == 56.7
    assert (figures["tokens in a row"], figures["of them not padding"]) == (100, 10)


def script_of(folder: Path, text: str) -> Path:
    script = folder / "train.py"
    script.write_text(text)
    os.utime(script, ns=(0, 0))
    return script


def test_a_script_that_packs_makes_it_unjudged(tmp_path: Path) -> None:
    packing = "x = 1\nx = nn.utils.rnn.pack_padded_sequence(x, lengths)\n"
    judged = diagnosis(facts(look(900), look(900), script=script_of(tmp_path, packing)))
    assert "padding-waste" in reasons(judged)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import torch\nids = pad_sequence(texts)\n", 2),
        ("conv = nn.Conv1d(8, 8, 3, padding=1)\nids = tokenizer(texts, padding='max_length')\n", 2),
        ("ids = F.pad(texts, 3)\nids = F.pad(texts, 4)\n", None),
    ],
)
def test_without_a_loader_the_only_line_that_pads_is_named(
    tmp_path: Path, text: str, line: int | None
) -> None:
    padded = facts(look(900), look(900), loader=False, script=script_of(tmp_path, text))
    one = finding_of(padded, "padding-waste")
    assert (one.place.line if one.place else None) == line
