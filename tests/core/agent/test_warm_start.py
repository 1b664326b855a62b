"""Trainings that start warm are what a new interpreter would be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.agent.conftest import Environment, Train
from tests.core.agent.warm_start import WarmStart

pytestmark = pytest.mark.subprocess

STATE = """
import atexit, gc, os, signal, sys, threading
atexit.register(print, "last words")
print(sys.argv[1:], sys.orig_argv[2:], sys.path, sys.flags, __name__, sorted(globals()))
print(os.getcwd(), os.environ["PYTHONPATH"], "torch" in sys.modules, sys.stdin.read())
print([str(signal.getsignal(one)) for one in signal.valid_signals()], threading.enumerate())
print(sorted(os.listdir("/proc/self/fd")), sys._getframe().f_back, gc.isenabled(), gc.callbacks)
print("error", file=sys.stderr)
"""

ENDINGS = {
    "end": "",
    "exit": "sys.exit(3)",
    "message": "sys.exit('no more')",
    "error": "def inner():\n    1 / 0\ninner()",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "os.kill(os.getpid(), 9)",
    "at once": "os._exit(4)",
    "long": "print('x' * 200_000)",
    "no syntax": "1 +",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_finds_and_leaves_the_same(train: Train, ending: str) -> None:
    def told(fresh: bool) -> tuple[int, str, str]:
        run = train(STATE + ENDINGS[ending], "1", "two", agent=False, fresh=fresh)
        where = re.compile(r"(?<=['\"])/\S*/train\.py|(?<=Thread, started )\d+|(?<= at )0x\w+")
        return run.code, where.sub("", run.out), where.sub("", run.err)

    assert told(fresh=False) == told(fresh=True)


@pytest.mark.slow
def test_what_a_script_draws_is_its_own(train: Train) -> None:
    draw = "import random, torch, numpy\n"
    draw += "print(random.random(), torch.rand(1).item(), numpy.random.rand())"
    first, second = (train(draw, agent=False).out.split() for _ in range(2))
    assert all(one != other for one, other in zip(first, second, strict=True))


@pytest.mark.slow
def test_one_that_does_not_end_is_killed_and_the_next_one_runs(
    warm_start: WarmStart, tmp_path: Path, environment: Environment
) -> None:
    env = {**environment(None), "PYTHONPATH": ""}
    (tmp_path / "train.py").write_text("import time; print('begun', flush=True); time.sleep(99)")
    with pytest.raises(TimeoutError, match="begun"):
        warm_start.run(tmp_path, (), env, timeout=2)
    (tmp_path / "train.py").write_text("print('done')")
    assert warm_start.run(tmp_path, (), env, timeout=60).stdout == "done\n"


def test_where_nothing_forks_it_is_said_why(tmp_path: Path, environment: Environment) -> None:
    # No module of Python's own is found, so it ends before it waits for a training.
    start = WarmStart(tmp_path, {**environment(None), "PYTHONHOME": "/nowhere"})
    with pytest.raises(RuntimeError, match="encodings"):
        start.run(tmp_path, (), environment(None), timeout=60)
    start.close()
