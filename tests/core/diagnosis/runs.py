"""Runs for rules: their steps, loaders, scripts, samples, and the operators of a window."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from perftui.diagnosis.model import Finding
from perftui.facts.fact import Facts
from perftui.run.columns import EVENT_COLUMNS, PHASES, STACK_COLUMNS, STEP_COLUMNS, WORKER_COLUMNS
from perftui.run.journal import Column
from perftui.run.manifest import Expected, Manifest, Override, Status
from perftui.run.reader import RankSnapshot, RunSnapshot
from perftui.run.table import Table
from tests.step_rows import step_row, table_of
from tests.traces.builder import TraceBuilder, us

MS = 1_000_000
GIB = 1 << 30
NODE = "autograd::engine::evaluate_function: "

Events = tuple[tuple[str, dict[str, Any]], ...]
"""Kinds of events and their data."""

ON_GPU: dict[str, Any] = {"gpus": ("H200",), "reserved": 24 << 30}
"""What a run on a machine with one GPU records, where its training uses it."""


def step_table(count: int, phases: dict[str, float], **columns: Any) -> Table:
    """``count`` equal steps, of training unless a ``kind`` is given, with ``phases`` in ms."""
    parts = [round(phases.get(phase, 0) * MS) for phase in PHASES]
    duration = sum(parts)
    rows = [step_row(at, parts, start=at * duration, **columns) for at in range(count)]
    return table_of(STEP_COLUMNS, rows)


def event_table(*loaders: dict[str, Any], events: Events = ()) -> Table:
    told = [*(("loader", data) for data in loaders), *events]
    return table_of(EVENT_COLUMNS, [[0, kind, 0, 0, data] for kind, data in told])


def worker_table(*rows: dict[str, int]) -> Table:
    """Rows of ``WORKER_COLUMNS``: what is not given is that of a worker that did nothing in 1 s."""
    usual = dict.fromkeys((column.name for column in WORKER_COLUMNS), 0)
    usual.update(loader=1, pid=7, elapsed=1000 * MS)
    return table_of(WORKER_COLUMNS, [list({**usual, **row}.values()) for row in rows])


def telemetry_table(samples: int = 5, **values: float) -> Table:
    """``samples`` equal samples of the named metrics, one a ms."""
    columns = (Column("time", "ns"), *(Column(name) for name in values))
    rows = [[at * MS, *values.values()] for at in range(samples)]
    return table_of(columns, rows, floats=True)


def make_run(
    count: int = 40,
    phases: dict[str, float] | None = None,
    loaders: tuple[dict[str, Any], ...] = (),
    telemetry: Table | None = None,
    steps: Table | None = None,
    root: Path = Path("run"),
    command: tuple[str, ...] = ("python", "train.py"),
    cpu_count: int = 8,
    gpus: tuple[str, ...] = (),
    status: Status = Status.EXITED,
    overrides: tuple[Override, ...] = (),
    expected: tuple[Expected, ...] | dict[str, Any] = (),
    exit_code: int | None = None,
    events: Events = (),
    skipped_lines: int = 0,
    cwd: str = "/home/user/project",
    started_ns: int = 1 << 62,
    profile: dict[str, Any] | None = None,
    workers: Table | None = None,
    **columns: int,
) -> RunSnapshot:
    manifest = Manifest(
        run_id=root.name,
        command=command,
        cwd=cwd,
        started_ns=started_ns,
        host="box",
        cpu_count=cpu_count,
        gpus=gpus,
        status=status,
        overrides=overrides,
        patched=expected,
        exit_code=exit_code,
        profile=profile or {},
    )
    phases = {"forward": 10} if phases is None else phases
    table = steps if steps is not None else step_table(count, phases, **columns)
    rank = RankSnapshot(
        0, table, event_table(*loaders, events=events), (), workers=workers or Table()
    )
    samples = {} if telemetry is None else {"box": telemetry}
    return RunSnapshot(root, manifest, (rank,), samples, skipped_lines)


def script_run(folder: Path, text: str, **run: Any) -> RunSnapshot:
    """A run of ``train.py`` with that text, of which no sample was taken."""
    (folder / "train.py").write_text(text)
    return make_run(cwd=str(folder), events=(("process", {"argv0": "train.py"}),), **run)


def card_samples(used: float, busy: float = 95, **more: float) -> Table:
    """Samples of a card with so many of 100 GiB in use, that is busy so many percent."""
    values = {"utilization": busy, "memory_used": used * GIB, "memory_total": 100.0 * GIB, **more}
    return telemetry_table(**{f"gpu0.{name}": value for name, value in values.items()})


def with_tables(run: RunSnapshot, **tables: Any) -> RunSnapshot:
    """The run of one rank, which has these tables."""
    return replace(run, ranks=(replace(run.ranks[0], **tables),))


def facts_of(**tables: Any) -> Facts:
    return Facts(with_tables(make_run(), **tables))


def joined(*tables: Table) -> Table:
    """The rows of all ``tables``, one after the other, renumbered."""
    rows = [
        [part[column.name][at] for column in STEP_COLUMNS]
        for part in tables
        for at in range(len(part))
    ]
    start = 0
    for index, row in enumerate(rows):
        row[0], row[2] = index, start
        start += int(row[3])
    return table_of(STEP_COLUMNS, rows)


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


SAMPLE = MS

FLOATS: dict[str, Any] = {
    "dtype": "float32",
    "device": "cpu",
    "tensors": 60,
    "trained": 60,
    "elements": 6_000_000,
    "tables": 0,
    "unused": 0,
    "unused_elements": 0,
}
SGD = {"name": "torch.optim.sgd.SGD", "file": "/p/train.py", "line": 5, "parameters": 60}
NOTE: dict[str, Any] = {"optimizers": [SGD], "parameters": [FLOATS]}


def staged(*rows: tuple[str, int, str]) -> Table:
    """Samples by file, line and stage, ten of each."""
    every = [row for row in rows for _ in range(10)]
    samples = [
        [at * SAMPLE, SAMPLE, 1, file, line, "main", "torch/x.py:1 f", SAMPLE, stage, ""]
        for at, (file, line, stage) in enumerate(every)
    ]
    return table_of(STACK_COLUMNS, samples)


def trained(
    step: Callable[[TraceBuilder], object],
    phases: dict[str, float],
    *lines: tuple[str, int, str],
    note: dict[str, Any] | None = NOTE,
    steps: int = 2,
    more: Events = (),
) -> Facts:
    """A run of steps with ``phases`` in ms; ``step`` tells what a window saw of each.

    None as ``note`` stands for a run that did not say how it is set up."""

    def whole(story: TraceBuilder) -> None:
        story.step()
        step(story)
        story.end()

    settings = (("settings", note),) if note else ()
    run = make_run(count=100, phases=phases, events=(*settings, *more))
    run = with_tables(run, stacks=staged(*lines))
    story = TraceBuilder().repeat(steps, whole)
    return Facts(run, mirrored(story, _BUSY.get()).analysis())


_BUSY = ContextVar("share of operators in which a GPU computes", default=0.0)


@contextmanager
def on_gpu(busy: float) -> Iterator[None]:
    """Meanwhile ``trained`` tells of a GPU: it computes for such a share of each operator."""
    token = _BUSY.set(busy)
    yield
    _BUSY.reset(token)


def mirrored(story: TraceBuilder, busy: float) -> TraceBuilder:
    """Every operator that calls no other launches a kernel that runs for such a share of it."""
    called = [span for span in story.spans if span.category == "cpu_op"]
    ordered = sorted(called, key=lambda span: (span.start, -span.end))
    for op, following in zip(ordered, [*ordered[1:], None], strict=True):
        lasting = round((op.end - op.start) * busy)
        if lasting and (following is None or following.start >= op.end):
            starts = op.end - lasting
            story.at(op.start).launch("gemm", lasting, call=starts - op.start, starts=starts)
    return story


def ops(story: TraceBuilder, *names: str, each: float = 10, gap: float = 0) -> TraceBuilder:
    """Operators one after the other, of so many us and with so many between."""
    for name in names:
        story.op(name, us(each)).pause(us(gap))
    return story


def call(story: TraceBuilder, *nested: str, lasting: float = 10) -> TraceBuilder:
    """Operators that call each other; the innermost takes so many us."""
    for name in nested[:-1]:
        story.op(name)
    story.op(nested[-1], us(lasting))
    for _ in nested[:-1]:
        story.close()
    return story


EVERY = 100 * MS


class Seen(NamedTuple):
    """The main thread was there from ``start`` on for ``held``, ms."""

    start: float
    held: float
    line: int
    stage: str = ""
    function: str = "<module>"
    via: str = ""
    inner: str = ""
    file: str = "/p/train.py"


def stacks_of(*rows: Seen) -> Table:
    samples = [
        [
            *(round(row.start * MS), round(row.held * MS), 1),
            *(row.file, row.line, row.function, row.inner or "p/train.py:1 main"),
            *(EVERY, row.stage, row.via),
        ]
        for row in rows
    ]
    return table_of(STACK_COLUMNS, samples)


def pauses(*rows: tuple[float, float, int], more: Events = ()) -> Table:
    """Collections: start and length in ms, generation; after ``more`` notes."""
    notes: list[list[Any]] = [[0, kind, 0, 0, data] for kind, data in more]
    notes += [
        [round(start * MS), "gc", round(length * MS), at, {"generation": generation}]
        for at, (start, length, generation) in enumerate(rows)
    ]
    return table_of(EVENT_COLUMNS, notes)


def run_of(
    steps: Table,
    *seen: Seen,
    events: Table | None = None,
    telemetry: Table | None = None,
    **run: Any,
) -> RunSnapshot:
    noted = {} if events is None else {"events": events}
    made = make_run(steps=steps, telemetry=telemetry, **run)
    return with_tables(made, stacks=stacks_of(*seen), **noted)


def source_of(finding: Finding) -> str | None:
    return finding.place.source if finding.place else None


ORIGIN = 1_000 * MS
"""Wall clock of the traces here."""

RATE = 10


def stack_table(*rows: tuple[int, int, str, int]) -> Table:
    """Stretches (start ms, length ms, file, line)."""
    every = 1_000_000_000 // RATE
    samples = [
        [start * MS, held * MS, 1, file, line, "main", f"torch/x.py:{line} forward", every, "", ""]
        for start, held, file, line in rows
    ]
    return table_of(STACK_COLUMNS, samples)


def run_with(stacks: Table, steps: int = 100, **profile: Any) -> RunSnapshot:
    """Steps of 100 ms each, from 0 on."""
    run = make_run(
        steps=step_table(steps, {"forward": 20, "other": 80}),
        profile={"stack_rate": RATE, **profile},
    )
    return with_tables(run, stacks=stacks)


def at_wall(*rows: tuple[int, int, str, int]) -> Table:
    """Stretches whose starts are ms of the trace."""
    return stack_table(*((start + ORIGIN // MS, *rest) for start, *rest in rows))
