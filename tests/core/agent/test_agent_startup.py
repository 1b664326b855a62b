"""What every interpreter goes through that inherits the recorder's environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import perftui.agent
from perftui.recorder.environment import training_environment
from perftui.wire.spool import AgentOptions

pytestmark = pytest.mark.subprocess

Environment = Callable[..., dict[str, str]]


def python(*args: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args], env=env, cwd=cwd, capture_output=True, text=True, check=False
    )


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    path.mkdir(mode=0o700)
    return path


def test_a_script_sees_the_interpreter_it_expects(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    source = "import json, sys; print(json.dumps([sys.argv, sys.path, __name__]))"
    (tmp_path / "script.py").write_text(source)

    alone = python("script.py", "-x", env=environment(None), cwd=tmp_path)
    armed = python("script.py", "-x", env=environment(spool), cwd=tmp_path)

    assert (armed.returncode, armed.stdout, armed.stderr) == (0, alone.stdout, "")


def test_no_module_is_imported_for_it(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    source = "import sys; print(sorted(sys.modules))"

    alone = python("-c", source, env=environment(None), cwd=tmp_path)
    armed = python("-c", source, env=environment(spool), cwd=tmp_path)

    assert armed.stdout == alone.stdout


def test_it_waits_for_torch_only_where_there_is_a_spool(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    source = "import sys; print(type(sys.meta_path[0]).__name__)"
    armed = python("-c", source, env=environment(spool), cwd=tmp_path)
    alone = python("-c", source, env=environment(spool, PERFTUI_SPOOL=""), cwd=tmp_path)

    assert armed.stdout == "TorchFinder\n"
    assert alone.returncode == 0
    assert alone.stdout != "TorchFinder\n"


@pytest.mark.slow
def test_a_spool_that_is_gone_is_left_alone(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    source = "import sys, torch; print('_perftui' in sys.modules)"

    done = python("-c", source, env=environment(spool / "gone"), cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_interpreters_of_a_run_need_not_compile_it(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    env = {**environment(spool), **training_environment({}, spool, AgentOptions())}
    source = "import sys; print(type(sys.meta_path[0]).__name__, sys.dont_write_bytecode)"

    for _ in range(2):
        done = python("-B", "-c", source, env=env, cwd=tmp_path)
        assert (done.stdout, done.stderr) == ("TorchFinder True\n", "")

    (compiled,) = (spool / "inject" / "__pycache__").iterdir()
    assert compiled.suffix == ".pyc"


@pytest.mark.slow
def test_an_agent_that_is_gone_lets_torch_be_imported(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    inject = tmp_path / "agent" / "inject"
    inject.mkdir(parents=True)
    shutil.copy(Path(perftui.agent.__file__).parent / "inject" / "sitecustomize.py", inject)
    env = {**environment(spool), "PYTHONPATH": str(inject)}

    done = python("-c", "import torch; print(1)", env=env, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


@pytest.mark.slow
def test_a_recorder_below_another_waits_for_torch_once(
    tmp_path: Path, spool: Path, environment: Environment
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

    done = python("-c", source, env=env, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    count, files = done.stdout.splitlines()
    assert count == "1"
    assert "ring-" in files
    assert [path.name for path in spool.glob("ring-*")] == []


def test_the_sitecustomize_it_hides_still_runs(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    hidden = tmp_path / "site"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("MARK = 'here'\nprint('hidden ran')")
    env = environment(spool)
    env["PYTHONPATH"] += f":{hidden}"

    done = python(
        "-c", "import sitecustomize as s; print(s.MARK, s.__file__)", env=env, cwd=tmp_path
    )

    assert done.stdout == f"hidden ran\nhere {hidden}/sitecustomize.py\n"


def test_without_one_to_hide_there_is_none(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    done = python("-c", "import sitecustomize", env=environment(spool), cwd=tmp_path)

    assert "ModuleNotFoundError: No module named 'sitecustomize'" in done.stderr


def test_children_are_reached_too(tmp_path: Path, spool: Path, environment: Environment) -> None:
    child = "import sys; print(type(sys.meta_path[0]).__name__)"
    source = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"

    assert python("-c", source, env=environment(spool), cwd=tmp_path).stdout == "TorchFinder\n"


@pytest.mark.slow
def test_looking_for_torch_is_not_importing_it(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    source = (
        "import importlib.util, sys\n"
        "print(importlib.util.find_spec('torch').name, '_perftui' in sys.modules)\n"
        "import torch\n"
        "print('_perftui' in sys.modules, torch.__spec__.loader.__class__.__name__)\n"
        "print([f for f in sys.meta_path if type(f).__name__ == 'TorchFinder'])\n"
    )
    done = python("-c", source, env=environment(spool), cwd=tmp_path)

    assert done.stdout == "torch False\nTrue SourceFileLoader\n[]\n"


@pytest.mark.slow
def test_options_that_make_no_sense_are_reported_and_the_script_runs(
    tmp_path: Path, spool: Path, environment: Environment
) -> None:
    env = environment(spool, PERFTUI_OPTIONS="[1]")

    done = python("-c", "import torch; print(1)", env=env, cwd=tmp_path)

    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")
    (notes,) = spool.glob("notes-*.jsonl")
    assert "could not start" in notes.read_text()


def test_what_is_injected_is_one_file() -> None:
    inject = Path(perftui.agent.__file__).parent / "inject"
    assert [path.name for path in inject.iterdir() if path.is_file()] == ["sitecustomize.py"]
