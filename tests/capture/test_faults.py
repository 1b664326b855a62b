"""What may happen to a training or to what watches it: it goes on, and what was seen is kept.

In other files: a viewer that is killed (``core/recorder/test_detached.py``,
``e2e/test_whole_loop.py``), a full disk (``core/recorder/test_full_disk.py``), a full spool
(``core/agent/test_agent_training.py``), a run directory that is removed
(``core/recorder/test_draining.py``), a stdout that is closed
(``core/recorder/test_foreground.py``), and how a killed training ends (``e2e/test_unharmed.py``).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from perftui.agent.native import IS_COMPILED
from perftui.facts.notes import problems
from perftui.run.columns import PHASES
from perftui.run.manifest import Status
from perftui.run.reader import RankSnapshot, RunReader, list_runs
from tests.capture.watched import (
    HERE,
    PATIENCE,
    PERFTUI,
    Ended,
    clean_environment,
    ended,
    ended_with_agent,
    recorded,
    steps_in,
)

pytestmark = pytest.mark.subprocess

compiled = pytest.mark.skipif(not IS_COMPILED, reason="the hooks are not compiled here")
COMPILED = (
    "enter_fetch",
    "leave_fetch",
    "enter_forward",
    "enter_backward",
    "leave",
    "enter_optimizer",
    "leave_optimizer",
)

TRAINING_PHASES = ("fetch", "forward", "backward", "optimizer", "between")


@dataclass(frozen=True)
class Outcomes:
    """All faults of ``faults.py``, once without us and once with the agent."""

    alone: Ended
    watched: Ended
    spool: Path


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    here = tmp_path_factory.mktemp("faults")
    command = (sys.executable, str(HERE / "faults.py"))
    # Without us there is no agent to interrupt.
    alone = ended((*command, "--alone"), here)
    spool = here / "spool"
    return Outcomes(alone, ended_with_agent(command, here, spool), spool)


def end_of(run: Ended, name: str) -> tuple[int, str]:
    """Process and end of one fault."""
    line = next(line for line in run.out.splitlines() if line.split()[0] == name)
    _, pid, end = line.split(maxsplit=2)
    return int(pid), end


def check_recorded(outcomes: Outcomes, name: str, off_by: int = 0) -> None:
    """Every step is there that the training says it has made."""
    pid, end = end_of(outcomes.watched, name)
    words = end.split()
    made = int(words[words.index("steps") + 1])
    steps = [one for one in steps_in(outcomes.spool, pid) if one["kind"] == "train"]
    assert made - off_by <= len(steps) <= made + off_by
    for step in steps:
        assert sum(step[phase] for phase in PHASES) == step["duration"]
    assert steps[-1]["forward"] > 0
    assert steps[-1]["backward"] > 0
    notes = (outcomes.spool / f"notes-{pid}.jsonl").read_text().splitlines()
    assert [note for note in map(json.loads, notes) if note["kind"] == "error"] == []


@pytest.mark.slow
@pytest.mark.parametrize("phase", TRAINING_PHASES)
@pytest.mark.parametrize("fault", ["interrupt", "memory"])
def test_interrupts_and_a_lack_of_memory_arrive_where_they_would(
    fault: str, phase: str, outcomes: Outcomes
) -> None:
    name = f"{fault}-{phase}"
    _, end = end_of(outcomes.watched, name)

    assert end == end_of(outcomes.alone, name)[1]
    assert end.startswith("interrupted 15 " if fault == "interrupt" else "True 15 ")
    check_recorded(outcomes, name)


@pytest.mark.parametrize(
    "place",
    [
        "call-enter_fetch",
        "return-enter_fetch",
        "call-leave_fetch",
        "return-leave_fetch",
        "call-enter_forward",
        "return-enter_forward",
        "call-enter_backward",
        "return-enter_backward",
        "return-leave",
        "call-enter_optimizer",
        "return-enter_optimizer",
        "call-leave_optimizer",
        "return-leave_optimizer",
        *(pytest.param(f"after-{hook}", marks=compiled) for hook in COMPILED),
    ],
)
def test_an_interrupt_within_the_agent_reaches_the_script(place: str, outcomes: Outcomes) -> None:
    _, end = end_of(outcomes.watched, f"agent-{place}")

    assert end.startswith("interrupted 15 steps ")
    # The step it came in may be counted by itself, or with its neighbour.
    check_recorded(outcomes, f"agent-{place}", off_by=1)


@pytest.mark.parametrize(
    "hook",
    ["enter_fetch", "leave_fetch", "enter_forward", "enter_optimizer", "qsize", "compiled-qsize"],
)
def test_what_a_signal_handler_raises_within_the_agent_reaches_the_script(
    hook: str, outcomes: Outcomes
) -> None:
    _, end = end_of(outcomes.watched, f"agent-alarm-{hook}")

    assert end.startswith("interrupted 15 steps ")


def test_a_worker_that_raises_ends_nothing_else(outcomes: Outcomes) -> None:
    _, end = end_of(outcomes.watched, "worker-raises")

    assert end == end_of(outcomes.alone, "worker-raises")[1]
    assert end.startswith("raised 15 ")
    check_recorded(outcomes, "worker-raises")


def test_steps_go_on_after_a_fetch_whose_end_nobody_was_told(outcomes: Outcomes) -> None:
    _, end = end_of(outcomes.watched, "agent-fetch-not-told")

    assert end == "broken off steps 45"
    check_recorded(outcomes, "agent-fetch-not-told", off_by=1)


@pytest.mark.parametrize("name", ["worker-exits", "worker-segfaults"])
def test_a_worker_that_dies_is_noticed_as_without_us(name: str, outcomes: Outcomes) -> None:
    for run in (outcomes.alone, outcomes.watched):
        assert end_of(run, name)[1].startswith("died steps ")
    # torch may raise in the middle of a hook: the step it came in may be missing, or come twice.
    check_recorded(outcomes, name, off_by=1)


def check_whole(rank: RankSnapshot) -> None:
    """Steps follow one another without a gap, and windows can be read."""
    steps = rank.steps
    assert list(steps["index"]) == list(range(len(steps)))
    assert (sum(steps[phase] for phase in PHASES) == steps["duration"]).all()
    assert (steps["start"][1:] == steps["start"][:-1] + steps["duration"][:-1]).all()
    for window in rank.windows:
        assert json.loads(window.read_bytes())["traceEvents"]


def test_a_training_killed_at_twenty_moments_leaves_all_its_steps(tmp_path: Path) -> None:
    run = ended((*PERFTUI, str(HERE / "killed.py"), "4", "20"), tmp_path)

    assert (run.code, run.err) == (0, "")
    made = dict(tuple(map(int, line.split())) for line in run.out.splitlines())
    snapshot = recorded(tmp_path)
    assert problems(snapshot) == ()
    assert [rank.rank for rank in snapshot.ranks] == sorted(made) == list(range(20))
    assert snapshot.skipped_lines == 0
    for rank in snapshot.ranks:
        check_whole(rank)
        assert abs(len(rank.steps) - made[rank.rank]) <= 1
    assert any(rank.windows for rank in snapshot.ranks)


ENDLESS = """
import torch
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while True:
    optimizer.zero_grad()
    model(torch.ones(4, 16)).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_a_machine_that_dies_leaves_what_could_be_seen_before(tmp_path: Path) -> None:
    """The recorder and the training are killed at once."""
    (tmp_path / "train.py").write_text(ENDLESS)
    process = subprocess.Popen(
        (*PERFTUI, "train.py"),
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        seen = watch_until(tmp_path, 200)
    finally:
        # The training is a job of its own, as under a shell.
        for each in of_session(process.pid):
            each.kill()
        process.wait()
    snapshot = recorded(tmp_path)

    assert snapshot.manifest.status is Status.LOST
    (rank,) = snapshot.ranks
    check_whole(rank)
    np.testing.assert_array_equal(rank.steps["start"][: len(seen)], seen)


def of_session(leader: int) -> list[psutil.Process]:
    """All processes of a session, its leader first."""
    found = [each for each in psutil.process_iter() if _session_of(each.pid) == leader]
    return sorted(found, key=lambda each: each.pid != leader)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def watch_until(directory: Path, steps: int) -> np.ndarray:
    """When so many steps began, as a viewer sees it while the training runs."""
    until = time.monotonic() + PATIENCE
    while True:
        assert time.monotonic() < until, "there are no steps"
        # The directory of a run is made before its manifest.
        begun = (one.root for one in list_runs(directory / "runs") if one.manifest is not None)
        for root in begun:
            rank = RunReader(root).poll().rank()
            if rank is not None and len(rank.steps) >= steps:
                return rank.steps["start"]
        time.sleep(0.1)


COUNTED = """
import os, signal, time
from shared_number import SharedNumber
number = SharedNumber()
child = os.fork()
while child == 0:
    number.store(number.read() + 1)
until = time.monotonic() + 0.5
newest = fewer = 0
while time.monotonic() < until or newest < 10_000:
    read = number.read()
    fewer += read < newest
    newest = max(newest, read)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(fewer, number.read() >= newest)
"""


def test_the_count_of_a_process_that_is_killed_is_never_less_than_it_was() -> None:
    command = (sys.executable, "-c", COUNTED)
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)

    assert run.stdout == "0 True\n"
