"""Who else holds memory of a GPU, by number, program and user."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from perftui.telemetry.gpu.find import find_gpus
from perftui.telemetry.gpu.nvml_library import CHECKED_SECONDS, OtherProcess, OtherProcesses
from tests.core.telemetry.conftest import DriverOf
from tests.core.telemetry.fake_nvml import Card, nvml_of
from tests.core.telemetry.test_gpu import MINE, Watch

GIB = 1 << 30
GONE = 2**22 - 1
"""No process has that number: it is beyond the usual limit."""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[int]:
    """A program that goes on."""
    script = tmp_path / "serve.py"
    script.write_text("print(flush=True); import time; time.sleep(600)")
    command = [sys.executable, str(script), "--token", "secret"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process.pid
        process.kill()


def watched(driver_of: DriverOf, *cards: Card) -> tuple[OtherProcesses, Watch]:
    gpus = find_gpus(lambda: MINE, nvml_of(driver_of(*cards)), pci=Path("nowhere"))
    return OtherProcesses(gpus.processes), Watch(gpus)


@pytest.mark.subprocess
def test_they_are_named_the_largest_first(driver_of: DriverOf, other: int) -> None:
    card = Card(compute={11: 3 * GIB, other: 2 * GIB, GONE: 1 * GIB})
    who, watch = watched(driver_of, card)
    assert who.changed(0.0) is None
    watch.sample()
    name = f"{psutil.Process(other).name()} serve.py"
    user = psutil.Process(os.getpid()).username()
    assert who.changed(1.0) == {
        "gpu0": [OtherProcess(other, 2 * GIB, name, user), OtherProcess(GONE, 1 * GIB)]
    }


def test_they_are_named_again_once_they_change_and_not_too_often(driver_of: DriverOf) -> None:
    card = Card(compute={11: 3 * GIB, GONE: 1 * GIB})
    who, watch = watched(driver_of, card)
    watch.sample()
    assert who.changed(0.0) is not None
    # The same process with more memory is no news.
    card.compute = {11: 3 * GIB, GONE: 2 * GIB}
    watch.sample()
    assert who.changed(CHECKED_SECONDS) is None
    card.compute = {11: 3 * GIB}
    watch.sample()
    assert who.changed(CHECKED_SECONDS - 1) is None
    assert who.changed(CHECKED_SECONDS) == {}


def test_nobody_is_named_by_the_numbers_of_another_container(driver_of: DriverOf) -> None:
    who, watch = watched(driver_of, Card(compute={1: 3 * GIB}))
    watch.sample()
    assert who.changed(0.0) is None


def test_they_are_known_after_the_run_has_left_the_card(driver_of: DriverOf) -> None:
    card = Card(compute={11: 3 * GIB, GONE: 1 * GIB})
    who, watch = watched(driver_of, card)
    watch.sample()
    card.compute = {GONE: 1 * GIB}
    watch.sample()
    assert who.changed(0.0) == {"gpu0": [OtherProcess(GONE, 1 * GIB)]}
