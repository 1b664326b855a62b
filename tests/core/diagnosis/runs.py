"""Small runs and evidence, built in memory, for tests of the rooms that read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from perftui.facts.fact import Facts
from perftui.run.columns import EVENT_COLUMNS, PHASES, STEP_COLUMNS, WORKER_COLUMNS
from perftui.run.journal import Column
from perftui.run.manifest import Expected, Manifest, Override, Status
from perftui.run.reader import RankSnapshot, RunSnapshot
from perftui.run.table import GrowingTable, Table
from tests.step_rows import step_row

MS = 1_000_000

Events = tuple[tuple[str, dict[str, Any]], ...]
"""Kinds of events and their data."""

ON_GPU: dict[str, Any] = {"gpus": ("H200",), "reserved": 24 << 30}
"""What a run on a machine with one GPU records, where its training uses it."""


def step_table(count: int, phases: dict[str, float], **columns: Any) -> Table:
    """``count`` equal steps, of training unless a ``kind`` is given, with ``phases`` in ms."""
    parts = [round(phases.get(phase, 0) * MS) for phase in PHASES]
    duration = sum(parts)
    table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
    table.extend([step_row(at, parts, start=at * duration, **columns) for at in range(count)])
    return table.freeze()


def event_table(*loaders: dict[str, Any], events: Events = ()) -> Table:
    table = GrowingTable(EVENT_COLUMNS, floats=False, text=("kind", "data"))
    told = [*(("loader", data) for data in loaders), *events]
    table.extend([[0, kind, 0, 0, data] for kind, data in told])
    return table.freeze()


def worker_table(*rows: dict[str, int]) -> Table:
    """Rows of ``WORKER_COLUMNS``: what is not given is that of a worker that did nothing in 1 s."""
    usual = dict.fromkeys((column.name for column in WORKER_COLUMNS), 0)
    usual.update(loader=1, pid=7, elapsed=1000 * MS)
    table = GrowingTable(WORKER_COLUMNS, floats=False)
    table.extend([list({**usual, **row}.values()) for row in rows])
    return table.freeze()


def telemetry_table(samples: int = 5, **values: float) -> Table:
    """``samples`` equal samples of the named metrics, one a ms."""
    columns = (Column("time", "ns"), *(Column(name) for name in values))
    table = GrowingTable(columns, floats=True)
    table.extend([[at * MS, *values.values()] for at in range(samples)])
    return table.freeze()


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
        expected=expected,
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


def facts_of(**tables: Any) -> Facts:
    """Facts of a run whose only rank has these tables."""
    run = make_run()
    return Facts(replace(run, ranks=(replace(run.ranks[0], **tables),)))


def joined(*tables: Table) -> Table:
    """The rows of all ``tables``, one after the other, renumbered."""
    table = GrowingTable(STEP_COLUMNS, floats=False, text=("kind",))
    rows = [
        [part[column.name][at] for column in STEP_COLUMNS]
        for part in tables
        for at in range(len(part))
    ]
    start = 0
    for index, row in enumerate(rows):
        row[0], row[2] = index, start
        start += int(row[3])
    table.extend(rows)
    return table.freeze()


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)
