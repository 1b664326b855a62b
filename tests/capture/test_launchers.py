"""The table of launchers: which processes are recorded of each, and that none notices.

A script by its name, its exit codes and its signals are in ``e2e/test_unharmed.py``; ``sys.argv``,
``__main__`` and ``sys.path[0]`` in ``core/agent/test_agent_startup.py``; what a script on a
terminal meets in ``core/recorder/test_detached.py``."""

from __future__ import annotations

import json
import shutil
import sys
import venv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from perftui.run.columns import PHASES
from perftui.run.manifest import Status
from perftui.run.reader import RankSnapshot
from tests.capture.watched import HERE, PERFTUI, Ended, ended, quick_environment, recorded

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]

STEPS = 24
PARENT = "import subprocess, sys\nsubprocess.check_call([sys.executable, 'training.py'])\n"
ACCELERATE = "--cpu --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no"

CELL = {
    "cell_type": "code",
    "id": "one",
    "execution_count": None,
    "metadata": {},
    "outputs": [],
    "source": ["import training\n", "print(training.train(0, lambda model: model), flush=True)\n"],
}
BOOK = {"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


@dataclass(frozen=True)
class Launcher:
    """``command`` is what follows ``perftui``; words in braces are paths."""

    name: str
    command: str
    needs: str = "torch"
    prints: str = ""
    """What is printed after the training's own line."""


ONE = (
    Launcher("module", "-m package.training"),
    Launcher("code", "-- {python} -c {code}"),
    Launcher("shell", "-- sh -c {shell}", prints="after\n"),
    Launcher("other environment", "--python {other} training.py"),
    Launcher("subprocess", "parent.py"),
    Launcher("ipython", "-- ipython training.py", needs="IPython"),
    Launcher("notebook", "-- ipython book.ipynb", needs="IPython"),
    Launcher("accelerate", f"-- accelerate launch {ACCELERATE} training.py", needs="accelerate"),
)

TWO = (
    Launcher("torchrun", "-- torchrun --standalone --nproc-per-node 2 training.py"),
    Launcher("spawn", "training.py spawn"),
    Launcher("fork", "training.py fork"),
    Launcher("deepspeed", "-- deepspeed --num_gpus 2 training.py", needs="deepspeed"),
)


GLOO = "c10d::ProcessGroupGloo"
"""Threads of gloo go on after ``destroy_process_group``, with and without us. One that asks for the
interpreter's lock to let go of a tensor, while the interpreter ends, is torn down in a destructor,
and the process aborts: https://github.com/pytorch/pytorch/issues/190489."""


def aborted_thread(err: str) -> str:
    """The stack of the thread that aborted a rank, as torch prints it; empty where none did."""
    stacks = err.split("SIGABRT(6), PID")
    return next((stack for stack in stacks if ": abort + 0x" in stack), "")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with the training, in all the forms that launchers want."""
    script = HERE / "training.py"
    (tmp_path / "package").mkdir()
    for copy in ("training.py", "package/training.py"):
        shutil.copyfile(script, tmp_path / copy)
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "book.ipynb").write_text(json.dumps(BOOK))
    return tmp_path


def launched(launcher: Launcher, here: Path) -> tuple[str, ...]:
    paths = {
        "{python}": sys.executable,
        "{code}": "import training; training.main()",
        "{shell}": f"'{sys.executable}' - < training.py && echo after",
        "{other}": "other/bin/python",
    }
    if "{other}" in launcher.command:
        make_environment(here / "other")
    return tuple(paths.get(word, word) for word in launcher.command.split())


def make_environment(path: Path) -> None:
    """An environment that has torch, borrowed from this one, and no perftui."""
    venv.create(path, symlinks=True)
    (site,) = path.glob("lib/python*/site-packages")
    spec = find_spec("torch")
    (site / "borrowed.pth").write_text(str(Path(spec.origin).parents[1]))


def quickly(command: tuple[str, ...], cwd: Path) -> Ended:
    return ended(command, cwd, quick_environment())


@pytest.fixture(scope="module")
def alone() -> str:
    """The training's line without us."""
    return quickly((sys.executable, "training.py"), HERE).out


@pytest.fixture(scope="module")
def alone_in_two() -> str:
    """The same of two ranks."""
    return quickly((sys.executable, "training.py", "fork"), HERE).out


def check_steps(rank: RankSnapshot) -> None:
    """All steps are there, with phases that sum to them."""
    steps = rank.steps
    assert list(steps["kind"]) == ["train"] * STEPS
    assert list(steps["micro_batches"]) == [1] * STEPS
    assert list(sum(steps[phase] for phase in PHASES)) == list(steps["duration"])
    for phase in ("input_wait", "forward", "backward", "optimizer"):
        assert (steps[phase] > 0).all()
    errors = [
        data
        for kind, data in zip(rank.events["kind"], rank.events["data"], strict=True)
        if kind == "error"
    ]
    assert errors == []


@pytest.mark.parametrize("launcher", ONE, ids=[one.name for one in ONE])
def test_one_process_trains(launcher: Launcher, here: Path, alone: str) -> None:
    pytest.importorskip(launcher.needs)
    run = quickly((*PERFTUI, *launched(launcher, here)), here)

    assert (run.code, run.out, run.err) == (0, alone + launcher.prints, "")
    snapshot = recorded(here)
    assert (snapshot.manifest.status, snapshot.manifest.exit_code) == (Status.EXITED, 0)
    (rank,) = snapshot.ranks
    assert rank.rank == 0
    check_steps(rank)


@pytest.mark.parametrize("launcher", TWO, ids=[one.name for one in TWO])
def test_two_ranks_train(launcher: Launcher, here: Path, alone_in_two: str) -> None:
    pytest.importorskip(launcher.needs)
    run = quickly((*PERFTUI, *launched(launcher, here)), here)

    if run.code and GLOO in aborted_thread(run.err):
        pytest.xfail("a thread of gloo aborted the rank as it left")
    assert run.code == 0, run.err
    assert alone_in_two in run.out
    assert len(alone_in_two.split()) == 2
    snapshot = recorded(here)
    assert [rank.rank for rank in snapshot.ranks] == [0, 1]
    for rank in snapshot.ranks:
        check_steps(rank)


ABORTS = """
import ctypes, threading, torch
torch._C._set_print_stack_traces_on_fatal_signal(True)
thread = threading.Thread(target=ctypes.CDLL(None).abort)
thread.start()
thread.join()
"""


def test_a_rank_that_aborts_says_in_which_thread(tmp_path: Path) -> None:
    run = ended((sys.executable, "-c", ABORTS), tmp_path)

    assert run.code < 0
    assert "ffi_call" in aborted_thread(run.err)
    assert GLOO not in aborted_thread(run.err)
    assert aborted_thread("terminate called without an active exception") == ""


def test_a_notebook_trains_in_a_kernel(here: Path, alone: str) -> None:
    pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    command = "-- jupyter nbconvert --to notebook --execute book.ipynb --output done.ipynb"
    run = quickly((*PERFTUI, *command.split()), here)

    assert run.code == 0, run.err
    (done,) = json.loads((here / "done.ipynb").read_text())["cells"]
    assert [one["text"] for one in done["outputs"]] == [[alone]]
    (rank,) = recorded(here).ranks
    check_steps(rank)
