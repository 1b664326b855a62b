"""A small training with a planted bottleneck: the diagnosis names the planted one, and no other.

It is run once without us and once with perftui, and does not notice. It waits far longer than it
computes, so that tests beside it change nothing; ``make scenarios`` judges all others, alone."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perftui.run.layout import RunLayout
from perftui.run.reader import RunReader
from tests.described import described
from tests.verify.scenarios.expected import Expected, read_training
from tests.verify.scenarios.score import ACCUSING, BUSY, judge

TRAININGS = Path(__file__).parent / "trainings"
PERFTUI = (sys.executable, "-m", "perftui_tui")
TRAINING = "input_in_main_thread.py"

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]

Outcome = tuple[int, bytes, bytes]


@dataclass(frozen=True)
class Trained:
    """The training, without us and with perftui, and the run that was recorded of it."""

    expected: Expected
    plain: Outcome
    watched: Outcome
    run: Path


def outcome(command: tuple[str, ...], cwd: Path) -> Outcome:
    # Other tests keep to one thread each; a training that does leaves cores idle.
    threads = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, stdin=subprocess.DEVNULL, env=threads
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    here = tmp_path_factory.mktemp("scenario")
    (here / "train.py").write_bytes((TRAININGS / TRAINING).read_bytes())
    plain = outcome((sys.executable, "train.py"), here)
    watched = outcome((*PERFTUI, "--headless", "train.py"), here)
    (run,) = (here / ".perftui" / "runs").iterdir()
    return Trained(read_training(TRAININGS / TRAINING).expected, plain, watched, run)


def reported(trained: Trained) -> dict[str, Any]:
    done = subprocess.run(
        (*PERFTUI, "report", str(trained.run.parent), "--json"), check=True, capture_output=True
    )
    found: dict[str, Any] = described("report", done.stdout.decode())
    return found


def test_the_planted_bottleneck_is_found_and_no_other(trained: Trained) -> None:
    report, expected = reported(trained), trained.expected
    assert judge(report, expected).ok
    accusing = {one["rule"] for one in report["findings"] if one["severity"] in ACCUSING}
    # Where other programs take the cores, their waits may be found as well, and that is said.
    if BUSY not in {one["rule"] for one in report["findings"]}:
        assert accusing <= {*expected.rules}
    assert "loader-workers" in {fix for one in report["findings"] for fix in one["fixes"]}


def test_output_and_losses_are_identical(trained: Trained) -> None:
    assert trained.plain == trained.watched
    assert trained.plain[0] == 0
    assert b"loss" in trained.plain[1]
    (rank,) = RunReader(trained.run).poll().ranks
    assert len(rank.steps) > 100
    assert rank.windows


def test_the_diagnosis_is_kept_beside_an_ended_run(trained: Trained) -> None:
    findings = RunLayout(trained.run).findings
    until = time.monotonic() + 30
    while not findings.exists():
        assert time.monotonic() < until, "no findings were written"
        time.sleep(0.05)
    diagnosis = json.loads(findings.read_bytes())["diagnosis"]
    assert diagnosis["findings"][0]["rule"] == reported(trained)["findings"][0]["rule"]
