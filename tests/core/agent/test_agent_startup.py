"""What every interpreter goes through that inherits the recorder's environment."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perftui.recorder.launch import PATCHED_MAIN, training_environment
from perftui.wire.spool import AgentOptions
from tests.core.agent.conftest import INJECT, Environment, Train

pytestmark = pytest.mark.subprocess


Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def python(tmp_path: Path, spool: Path, environment: Environment) -> Python:
    """Starts an interpreter with the recorder's environment, or without."""

    def run(*args: str, armed: bool = True, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *args],
            env={**environment(spool if armed else None), **changes},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def outcome(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


def test_a_script_sees_the_interpreter_it_expects_and_no_module_is_imported_for_it(
    tmp_path: Path, python: Python
) -> None:
    source = "import sys; print(sorted(sys.modules)); print(sys.argv, sys.path, __name__)"
    (tmp_path / "script.py").write_text(source)

    alone, armed = (python("script.py", "-x", armed=armed) for armed in (False, True))
    assert outcome(armed) == (0, alone.stdout, "")


FIRST_FINDER = "import sys; print(type(sys.meta_path[0]).__name__)"


def test_it_waits_for_torch_only_where_there_is_a_spool(python: Python) -> None:
    armed, alone = python("-c", FIRST_FINDER), python("-c", FIRST_FINDER, PERFTUI_SPOOL="")

    assert armed.stdout == "TorchFinder\n"
    assert alone.returncode == 0
    assert alone.stdout != "TorchFinder\n"


@pytest.mark.slow
def test_torch_is_imported_though_the_spool_or_the_agent_is_gone(
    tmp_path: Path, python: Python
) -> None:
    inject = tmp_path / "agent" / "inject"
    inject.mkdir(parents=True)
    shutil.copy(INJECT / "sitecustomize.py", inject)
    source = "import sys, torch; print('_perftui' in sys.modules)"

    for gone in ({"PERFTUI_SPOOL": "/gone"}, {"PYTHONPATH": str(inject)}):
        assert outcome(python("-c", source, **gone)) == (0, "False\n", "")


def test_interpreters_of_a_run_need_not_compile_it(spool: Path, python: Python) -> None:
    env = training_environment({}, spool, AgentOptions())
    source = f"{FIRST_FINDER}; print(sys.dont_write_bytecode)"

    for _ in range(2):
        assert outcome(python("-B", "-c", source, **env)) == (0, "TorchFinder\nTrue\n", "")

    (compiled,) = (spool / "inject" / "__pycache__").iterdir()
    assert compiled.suffix == ".pyc"


@pytest.mark.slow
def test_a_recorder_below_another_waits_for_torch_once(
    tmp_path: Path, spool: Path, python: Python, environment: Environment
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir(mode=0o700)
    env = training_environment(environment(spool), inner, AgentOptions())
    source = (
        "import os, sys\n"
        "print([type(f).__name__ for f in sys.meta_path].count('TorchFinder'))\n"
        "import torch\n"
        "torch.nn.Linear(2, 1)(torch.ones(1, 2))\n"
        "print(os.listdir(os.environ['PERFTUI_SPOOL']))\n"
    )

    done = python("-c", source, **env)

    assert done.returncode == 0, done.stderr
    count, files = done.stdout.splitlines()
    assert count == "1"
    assert "ring-" in files
    assert [path.name for path in spool.glob("ring-*")] == []


def test_the_sitecustomize_it_hides_still_runs(
    tmp_path: Path, spool: Path, python: Python, environment: Environment
) -> None:
    hidden = tmp_path / "site"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("MARK = 'here'\nprint('hidden ran')")
    paths = f"{environment(spool)['PYTHONPATH']}:{hidden}"

    done = python("-c", "import sitecustomize as s; print(s.MARK, s.__file__)", PYTHONPATH=paths)

    assert done.stdout == f"hidden ran\nhere {hidden}/sitecustomize.py\n"


def test_without_one_to_hide_there_is_none(python: Python) -> None:
    message = "ModuleNotFoundError: No module named 'sitecustomize'"
    assert message in python("-c", "import sitecustomize").stderr


def test_children_are_reached_too(python: Python) -> None:
    source = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {FIRST_FINDER!r}])"

    assert python("-c", source).stdout == "TorchFinder\n"


@pytest.mark.slow
def test_looking_for_torch_is_not_importing_it(python: Python) -> None:
    source = (
        "import importlib.util, sys\n"
        "print(importlib.util.find_spec('torch').name, '_perftui' in sys.modules)\n"
        "import torch\n"
        "print('_perftui' in sys.modules, torch.__spec__.loader.__class__.__name__)\n"
        "print([f for f in sys.meta_path if type(f).__name__ == 'TorchFinder'])\n"
    )

    assert python("-c", source).stdout == "torch False\nTrue SourceFileLoader\n[]\n"


@pytest.mark.slow
def test_options_that_make_no_sense_are_reported_and_the_script_runs(
    spool: Path, python: Python
) -> None:
    done = python("-c", "import torch; print(1)", PERFTUI_OPTIONS="[1]")

    assert outcome(done) == (0, "1\n", "")
    (notes,) = spool.glob("notes-*.jsonl")
    assert "could not start" in notes.read_text()


def test_what_is_injected_is_one_file() -> None:
    assert [path.name for path in INJECT.iterdir() if path.is_file()] == ["sitecustomize.py"]


SCRIPT = '''"""What it is."""
from __future__ import annotations

import inspect
import json
import multiprocessing
import sys

import helper


def told() -> dict:
    here = sys._getframe()
    return {
        "names": sorted(globals()),
        "name": __name__,
        "file": __file__,
        "doc": __doc__,
        "spec": __spec__,
        "package": __package__,
        "loader": type(__loader__).__name__,
        "builtins": type(__builtins__).__name__,
        "annotations": str(told.__annotations__),
        "argv": sys.argv,
        "path": sys.path[0],
        "code": here.f_code.co_filename,
        "line": here.f_lineno,
        "source": inspect.getsource(told),
        "of helper": inspect.getsource(helper.answer),
        "answer": helper.answer(),
        "main": sys.modules["__main__"].__dict__ is globals(),
    }


if __name__ == "__main__":
    print(json.dumps(told()))
    sys.exit(3)
'''
HELPER = "def answer():\n    return 41\n"


def run(words: list[str], cwd: Path, **environment: str) -> tuple[int, Any]:
    ended = subprocess.run(
        [sys.executable, *words, "--lr", "0.1"],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def patched(
    words: list[str], cwd: Path, of: Path | None = None, **patches: bytes
) -> tuple[int, Any]:
    """Run ``words``, its first one the script, with ``patches`` by the stem of their file, which is
    one of ``cwd`` or ``of``."""
    given, folder = [], of or cwd
    for stem, content in patches.items():
        kept = folder / f"patch-of-{stem}"
        kept.write_bytes(content)
        arguments = {"source": str(kept), "word": 1, "script": words[0]}
        file = str(folder / f"{stem}.py")
        given.append({"target": "source", "arguments": arguments, "file": file})
    return run([str(PATCHED_MAIN), *words[1:]], cwd, PERFTUI_OVERRIDES=json.dumps(given))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


@pytest.mark.parametrize("script", ["train.py", "./train.py", "link.py"])
def test_nothing_but_the_patch_differs(directory: Path, script: str) -> None:
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "train.py").write_text(SCRIPT)
    (elsewhere / "helper.py").write_text(HELPER)
    (directory / "link.py").symlink_to(elsewhere / "train.py")
    assert patched([script], directory, train=SCRIPT.encode()) == run([script], directory)


def test_a_script_of_another_directory_finds_its_modules(directory: Path) -> None:
    deep, script = directory / "deep", str(directory / "train.py")
    deep.mkdir()
    assert patched([script], deep, directory, train=SCRIPT.encode()) == run([script], deep)


def test_the_patch_is_what_runs_and_what_is_shown(directory: Path) -> None:
    script = SCRIPT.replace("def told", "\n\n# äöü\ndef told").replace("sys.exit(3)", "sys.exit(4)")
    code, said = patched(["train.py"], directory, train=script.encode())
    _, before = run(["train.py"], directory)
    assert code == 4
    assert said["line"] == before["line"] + 3
    assert said["source"] == before["source"]
    assert (directory / "train.py").read_text() == SCRIPT


def test_a_patch_of_a_module_is_imported_in_its_place(directory: Path) -> None:
    run(["train.py"], directory)
    # What Python had compiled of it is not taken.
    code, said = patched(["train.py"], directory, helper=HELPER.replace("41", "42").encode())
    assert (code, said["answer"]) == (3, 42)
    assert "42" in said["of helper"]
    assert run(["train.py"], directory)[1]["answer"] == 41


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
