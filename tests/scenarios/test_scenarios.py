"""Small trainings with a planted bottleneck: the diagnosis names the planted one, and no other.

Each is run once without us and once with perftui, and does not notice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from perftui.run.layout import RunLayout
from perftui.run.reader import RunReader

TRAININGS = Path(__file__).parent / "trainings"
PERFTUI = (sys.executable, "-m", "perftui_tui")
PLANTED: dict[str, tuple[list[str], set[str]]] = {
    "input_in_main_thread.py": (["input-in-main-thread"], {"loader-workers"}),
    "input_with_workers.py": (["input-disk-bound"], {"loader-workers"}),
    "healthy.py": (["healthy"], set()),
}
"""By script, the rules whose findings it has, and fixes that the first of them offers."""

pytestmark = pytest.mark.subprocess

Outcome = tuple[int, bytes, bytes]


@dataclass(frozen=True)
class Trained:
    """One scenario, without us and with perftui, and the run that was recorded of it."""

    rules: list[str]
    fixes: set[str]
    plain: Outcome
    watched: Outcome
    run: Path


def outcome(command: tuple[str, ...], cwd: Path) -> Outcome:
    done = subprocess.run(command, cwd=cwd, capture_output=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module", params=PLANTED)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    here = tmp_path_factory.mktemp("scenario")
    (here / "train.py").write_bytes((TRAININGS / request.param).read_bytes())
    plain = outcome((sys.executable, "train.py"), here)
    watched = outcome((*PERFTUI, "--headless", "train.py"), here)
    (run,) = (here / ".perftui" / "runs").iterdir()
    return Trained(*PLANTED[request.param], plain, watched, run)


def test_the_planted_bottleneck_is_found(trained: Trained) -> None:
    done = subprocess.run(
        (*PERFTUI, "report", str(trained.run.parent), "--json"), check=True, capture_output=True
    )
    report = msgspec.json.decode(done.stdout, type=dict)
    assert [finding["rule"] for finding in report["findings"]] == trained.rules
    assert set(report["findings"][0]["fixes"]) >= trained.fixes


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
    assert [finding["rule"] for finding in diagnosis["findings"]] == trained.rules
