"""All that is sampled of this machine, and the document that lists it."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from perftui.recorder.machine_sampling import host_columns, look_around
from perftui.telemetry import cpu, memory
from perftui.telemetry.contention import (
    THREAD_COLUMNS,
    ContentionSource,
    PressureSource,
    ThreadSource,
)
from perftui.telemetry.data_disk import DataDiskSource, DataPlace, NfsSource
from perftui.telemetry.devices import InfinibandSource, NetworkSource
from perftui.telemetry.memory import PssSource, SharedMemorySource
from perftui.telemetry.processes import Roles
from perftui.telemetry.source import PartialSource, Sampler
from tests.telemetry_given import sampled, write

NO_FILE = "No such file or directory"


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (cpu.FrequencySource, {"cpu.frequency": "no cpufreq in PLACE/devices/system/cpu"}),
        (InfinibandSource, {"infiniband": "no InfiniBand ports"}),
        (
            lambda place: SharedMemorySource(f"{place}/none"),
            {"memory.shm_used": f"PLACE/none: {NO_FILE}"},
        ),
        (
            lambda place: PssSource(5, frozenset, place),
            {"processes.pss": f"smaps_rollup: {NO_FILE}"},
        ),
        (
            lambda place: ContentionSource(Roles, frozenset, place),
            dict.fromkeys(("processes.delayed", "processes.perftui_cpu"), f"schedstat: {NO_FILE}"),
        ),
        (
            lambda place: ThreadSource(Roles, place),
            {", ".join(column.name for column in THREAD_COLUMNS): f"schedstat: {NO_FILE}"},
        ),
        (lambda place: PressureSource("io", Path(place)), {"pressure.io": f"PLACE/io: {NO_FILE}"}),
        (
            lambda place: DataDiskSource(DataPlace(5, Roles, place), place, place),
            {"data_disk": "nothing in PLACE/diskstats"},
        ),
        (lambda place: NfsSource(DataPlace(5, Roles, place), place), {"nfs": "no NFS mount"}),
    ],
)
def test_a_machine_without_it_has_no_column_and_a_reason(
    tmp_path: Path, make: Callable[[str], PartialSource], missing: dict[str, str]
) -> None:
    source = make(str(tmp_path))
    assert source.columns == ()
    assert source.missing == {n: why.replace("PLACE", str(tmp_path)) for n, why in missing.items()}
    assert DataPlace(5, Roles, str(tmp_path)).search(0.0) is None


def test_what_is_there_but_tells_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"class/infiniband/mlx4_0/ports/1/state": "4: ACTIVE"})
    assert InfinibandSource(str(tmp_path)).missing == {"infiniband": "its ports have no counters"}
    network = NetworkSource(str(tmp_path), str(tmp_path))
    assert "network.retransmits" not in sampled(network, 0.0)
    assert network.missing == {"network.retransmits": f"not in {tmp_path}/net/snmp"}
    monkeypatch.setattr(memory, "why_unreadable", lambda _path: "Permission denied")
    assert PssSource(5, frozenset).missing == {"processes.pss": "smaps_rollup: Permission denied"}


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
