"""All ceilings of a machine together."""

from __future__ import annotations

import os
import socket
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from perftui.probe import probe as probing
from perftui.probe.ceilings import Ceiling, NotMeasured, rate_of
from perftui.probe.disk import disk_read
from perftui.probe.probe import Worked

Times = namedtuple("Times", "user system idle iowait guest")

DISK = rate_of(Ceiling.DISK_READ, "B/s", [[2e9]], "files")
MEMORY = rate_of(Ceiling.MEMORY, "B/s", [[3e12]], "copies")
WORKED = Worked("2.9.0", "A card", (MEMORY,), (NotMeasured(Ceiling.TF32, "no room"),))


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr(probing, "disk_read", lambda _, s: asked.append(("disk", s)) or DISK)
    monkeypatch.setattr(probing, "work", lambda _, s, *__: asked.append(("torch", s)) or WORKED)
    monkeypatch.setattr(probing, "_driver", lambda: "580.1")
    return asked


def test_disk_and_torch_share_the_time(tmp_path: Path, played: list[tuple[str, float]]) -> None:
    told: list[str] = []
    found = probing.probe("python", tmp_path, 8.0, told.append)
    assert played == [("disk", 2.0), ("torch", 6.0)]
    assert told == ["disk read"]
    assert (found.host, found.gpu, found.driver) == (socket.gethostname(), "A card", "580.1")
    assert found.rates == (DISK, MEMORY)
    assert [one.name for one in found.not_measured] == [Ceiling.TF32]
    assert found.path == str(tmp_path)


def test_without_a_disk_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "disk_read", disk_read)
    found = probing.probe("python", tmp_path / "nowhere", 0.1)
    assert found.rates == (MEMORY,)
    assert found.not_measured[0].name is Ceiling.DISK_READ
    assert "No such file" in found.not_measured[0].reason


def test_other_programs_are_all_but_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = iter([Times(100, 50, 1000, 5, 30), Times(108, 52, 1010, 5, 30)])
    own = iter([os.times_result((1, 0, 2, 0, 0)), os.times_result((2, 0, 4, 1, 0))])
    clock = iter([100.0, 104.0])
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(cpu))
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "times", lambda: next(own))
    monkeypatch.setattr(probing.time, "monotonic", lambda: next(clock, 104.0))
    found = probing.probe("python", tmp_path, 1.0)
    # 10 s of all cores, 4 of them ours, in 4 s.
    assert (found.others, found.cores, found.is_disturbed) == (1.5, 4, True)
