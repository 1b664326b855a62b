"""What a person does from the first command to the proven fix, in a real terminal."""

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perftui.experiments.rerun import Arrival, overrides
from perftui.facts.fact import Facts
from perftui.run.manifest import Status
from perftui.run.reader import RunReader, RunSnapshot
from perftui_tui.cli import main
from perftui_tui.demo import trainings

TRAININGS = Path(__file__).parents[1] / "verify" / "scenarios" / "trainings"

Perftui = Callable[..., Any]
"""Starts the command and gives its ``Terminal``."""

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("start_sooner")]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The scenario with its data fetched in the training thread, made to last for minutes."""
    source = (TRAININGS / "input_in_main_thread.py").read_text()
    script = tmp_path / "train.py"
    script.write_text(source.replace("range(2)", "range(100)"))
    return script


def runs_of(directory: Path) -> list[RunSnapshot]:
    runs = directory / ".perftui" / "runs"
    return [RunReader(run).poll() for run in sorted(runs.iterdir())] if runs.exists() else []


def steady_steps(screen: str) -> int:
    """Steps that the verdict on the Overview rests on."""
    found = re.search(r"\((\d+) steady steps\)", screen)
    return int(found[1]) if found else 0


def wait_for_end(directory: Path) -> RunSnapshot:
    until = time.monotonic() + 60
    while not (run := runs_of(directory)[0]).manifest.status.is_over:
        assert time.monotonic() < until, "the run never ended"
        time.sleep(0.1)
    return run


def test_find_try_compare_write_and_undo(perftui: Perftui, script: Path, tmp_path: Path) -> None:
    before = script.read_bytes()
    app = perftui("train.py")
    app.wait_for("num_workers 0 ->")
    app.wait_for(lambda screen: steady_steps(screen) >= 30 and "a try it" in screen)
    app.press("a")
    app.wait_for("Run again?")
    app.press("\r")
    app.wait_for("AFTER")
    app.wait_for(lambda screen: "data loader wait" in screen and "collecting" not in screen)
    app.press("w")
    app.wait_for("Write the fix?")
    app.press("\r")
    app.wait_for("train.py written")
    assert b"num_workers=" in script.read_bytes()
    app.press("u")
    app.wait_for("restored byte for byte")
    assert script.read_bytes() == before
    app.press("q")
    app.wait_for("Quit perftui?")
    app.press("s")
    app.wait()
    first, second = runs_of(tmp_path)
    assert first.manifest.status.is_over
    assert second.manifest.parent == first.manifest.run_id
    (applied,) = overrides(Facts(second))
    assert applied.arrival is Arrival.APPLIED
    assert applied.values["num_workers"] >= 1
    # A batch sleeps 16 ms, so two workers halve the wait; the rest is room for a busy machine,
    # which may have a core for one only: that leaves it as it is.
    waits = [float(np.median(run.ranks[0].steps["input_wait"])) for run in (first, second)]
    assert waits[1] < (0.8 if applied.values["num_workers"] > 1 else 1.2) * waits[0]


@pytest.mark.slow
def test_the_demo_is_proven_written_and_undone(perftui: Perftui) -> None:
    app = perftui("demo")
    app.wait_for(lambda screen: "anomaly detection off" in screen and "a try it" in screen)
    app.press("a")
    app.wait_for("prove it")
    app.press("p")
    app.wait_for("write the fix to the source", timeout=240.0)
    app.press("w")
    app.wait_for("Write the fix?")
    app.press("\r")
    app.wait_for("train.py written")
    app.press("4u")
    app.wait_for("restored byte for byte")
    app.press("q")
    app.wait()


CAUSES = {
    "anomaly": ("debug-flags", "anomaly-off"),
    "checkpoint": ("checkpoint", "less-often"),
    "garbage": ("gc-pauses", "collect-off"),
    "loader": ("input-in-main-thread", "loader-workers"),
    "optimizer": ("optimizer-single-tensor", "optimizer-fused"),
    "workers": ("loader-start", "loader-persistent"),
}
"""The finding that each training of the demo is for, and its fix."""


@pytest.mark.slow
@pytest.mark.parametrize("name", trainings())
def test_the_cause_of_each_demo_is_named_first_and_can_be_tried(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(trainings()[name].script)
    runs = f"--runs={tmp_path / 'runs'}"
    assert main(["diagnose", runs, "--json", "--max-steps=200", str(script)]) == 0
    first, *_ = json.loads(capfd.readouterr().out)["findings"]
    assert (first["rule"], first["fixes"][0]) == CAUSES[name]
    assert main(["apply", runs, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["fix"] == CAUSES[name][1]
    assert main(["undo", runs]) == 0
    assert script.read_text() == trainings()[name].script


@pytest.mark.slow
def test_leaving_a_trial_by_pairs_leaves_no_training_behind(
    perftui: Perftui, script: Path, tmp_path: Path
) -> None:
    app = perftui("train.py")
    app.wait_for(lambda screen: steady_steps(screen) >= 30 and "a try it" in screen)
    app.press("a")
    app.wait_for("is stopped first")
    app.press("p")
    app.wait_for("trying 1 worker")
    (first,) = runs_of(tmp_path)
    assert first.manifest.status.is_over
    trials = tmp_path / ".perftui" / "trials" / first.root.name
    app.wait_for(lambda _: trials.exists() and any(trials.iterdir()))
    app.press("q")
    app.wait_for("A trial is still running")
    app.press("s")
    app.wait()
    tried = [RunReader(root).poll().manifest for root in trials.glob("*-train-*")]
    assert tried
    assert all(one.status.is_over for one in tried)
    assert {one.parent for one in tried} == {first.manifest.run_id}


@pytest.mark.slow
def test_a_run_whose_app_is_killed_goes_on_and_is_replayed_whole(
    perftui: Perftui, script: Path, tmp_path: Path
) -> None:
    script.write_text(script.read_text().replace("range(100)", "range(3)"))
    app = perftui("train.py")
    app.wait_for("num_workers 0 ->")
    os.killpg(app.process.pid, signal.SIGKILL)
    run = wait_for_end(tmp_path)
    assert (run.manifest.status, run.manifest.exit_code) == (Status.EXITED, 0)
    assert len(run.ranks[0].steps) == 3 * 80
    replay = perftui("replay", str(run.root), columns=80, rows=24)
    replay.wait_for("BOTTLENECK")
    replay.press("6")
    replay.wait_for("epoch 2 loss")
    replay.press("q")
    assert replay.wait() == 0


@pytest.mark.slow
def test_a_run_whose_training_is_killed_opens(
    perftui: Perftui, script: Path, tmp_path: Path
) -> None:
    app = perftui("train.py")
    app.wait_for("num_workers 0 ->")
    os.kill(runs_of(tmp_path)[0].manifest.pid, signal.SIGKILL)
    run = wait_for_end(tmp_path)
    assert (run.manifest.status, run.manifest.exit_code) == (Status.KILLED, 137)
    app.wait_for("137")
    app.press("q")
    assert app.wait() == 137
    replay = perftui("replay", str(run.root))
    replay.wait_for("BOTTLENECK")
    replay.press("q")
    assert replay.wait() == 0
