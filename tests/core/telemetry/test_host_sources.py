"""All that is sampled of this machine, and the document that lists it."""

from __future__ import annotations

import os
import re
import time

import pytest

from perftui.telemetry.host_sources import host_columns, look_around
from perftui.telemetry.processes import Roles
from perftui.telemetry.source import Sampler


def test_this_machine_answers_every_column_twice() -> None:
    roles = Roles(ranks=frozenset([os.getpid()]))
    machine = look_around(os.getpid(), roles=lambda: roles)
    sampler = Sampler(machine.sources, lambda name, error: pytest.fail(f"{name}: {error}"))
    sampler.sample()
    time.sleep(0.05)
    row = dict(zip([column.name for column in sampler.columns], sampler.sample(), strict=True))
    assert row["memory.used"]
    assert row["processes.rss"]
    assert row["processes.count"] >= 1
    assert row["processes.main_cpu"] is not None
    assert len(row) == len(sampler.columns)
    # Who waits for a core and what memory is shared takes longer, and is asked seldom.
    assert all(column.unit or column.label for column in sampler.columns)


def test_each_metric_is_sampled_or_has_a_reason() -> None:
    machine = look_around(os.getpid())
    sampled = {column.name for source in machine.sources for column in source.columns}
    left_out = {name for names in machine.missing for name in names.split(", ")}
    known = {column.name for columns in host_columns().values() for column in columns}
    known.remove("cpu.coreN")
    for name in known - sampled:
        assert any(name.startswith(reason) for reason in left_out), name
    assert not left_out & sampled
    assert all(machine.missing.values())
    of_host = {name for name in sampled if not name.startswith("gpu")}
    assert {re.sub(r"core\d+$", "coreN", name) for name in of_host} <= known | {"cpu.coreN"}


def test_no_metric_is_told_twice_or_without_its_source() -> None:
    columns = [column for group in host_columns().values() for column in group]
    assert len({column.name for column in columns}) == len(columns)
    for column in columns:
        assert column.label, column.name
        assert column.source, column.name
        assert column.meaning.endswith("."), column.name
