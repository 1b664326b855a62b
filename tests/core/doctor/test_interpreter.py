"""The interpreter that trains, and py-spy on it."""

import sys
from pathlib import Path

import msgspec
import pytest

from perftui.doctor.interpreter import (
    COMPILED,
    AskError,
    Interpreter,
    agent_row,
    ask,
    pyspy_row,
    python_row,
    scope_row,
    sitecustomize_row,
    torch_row,
    try_pyspy,
)
from perftui.doctor.row import SYS_PTRACE, State
from perftui.recorder.pyspy import find_pyspy
from tests.core.doctor.trees import GOOD, capable, says, tree


def given(**fields: object) -> Interpreter:
    return msgspec.structs.replace(GOOD, **fields)


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("version", "cuda", "has_gpu", "state", "found"),
    [
        ("2.4.0+cu121", "12.1", True, State.OK, "2.4.0+cu121, for CUDA 12.1"),
        ("2.13.0+cpu", None, False, State.OK, "2.13.0+cpu, for the CPU"),
        ("2.3.1", "12.1", True, State.FAILS, "2.3.1"),
        ("2.13.0+cpu", None, True, State.WARN, "is not built for CUDA"),
        (None, None, True, State.FAILS, "not installed"),
        ("", None, False, State.UNKNOWN, "none that is known"),
    ],
)
def test_torch_has_to_be_2_4_and_built_for_the_card(
    version: str | None, cuda: str | None, has_gpu: bool, state: State, found: str
) -> None:
    row = torch_row(given(torch=version, cuda=cuda), has_gpu=has_gpu)
    assert row.state is state
    assert found in row.found
    assert bool(row.advice) is (state in (State.FAILS, State.WARN))


def test_the_compiled_part_is_used_or_it_is_said_why_not() -> None:
    assert agent_row(GOOD, is_built=True).state is State.OK
    plain = given(compiled=False)
    assert "C compiler" in agent_row(plain, is_built=False).advice
    assert (
        "3.10 or newer" in agent_row(given(compiled=False, version="3.9.2"), is_built=True).advice
    )
    assert "the GIL" in agent_row(plain, is_built=True).advice
    assert agent_row(plain, is_built=True).state is State.WARN


@pytest.mark.parametrize(
    ("fields", "state", "found"),
    [
        ({}, State.OK, "imported"),
        ({"other_sitecustomize": "/usr/lib/sitecustomize.py"}, State.OK, "after it"),
        ({"armed": False, "ignores_environment": True}, State.FAILS, "ignores PYTHONPATH"),
        (
            {"armed": False, "other_sitecustomize": "/opt/sitecustomize.py"},
            State.FAILS,
            "/opt/sitecustomize.py is imported instead of perftui's",
        ),
        ({"armed": False}, State.FAILS, "something removes it"),
    ],
)
def test_another_sitecustomize_may_come_after_ours_and_not_in_its_place(
    fields: dict[str, object], state: State, found: str
) -> None:
    row = sitecustomize_row(given(**fields))
    assert row.state is state
    assert found in row.found


@pytest.mark.subprocess
def test_an_interpreter_says_what_it_is() -> None:
    found = ask(sys.executable)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert found.armed
    assert found.torch is not None
    assert found.compiled is COMPILED.exists()
    assert python_row(sys.executable, found).state is State.OK


@pytest.mark.subprocess
def test_a_sitecustomize_of_the_user_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')\n")
    found = ask(sys.executable, {"PYTHONPATH": str(tmp_path)})
    assert found.armed
    assert found.other_sitecustomize == str(tmp_path / "sitecustomize.py")


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("script", "found"),
    [
        (f'exec {sys.executable} -E "$@"', {"armed": False, "ignores_environment": True}),
        (f'PYTHONPATH= exec {sys.executable} "$@"', {"armed": False, "ignores_environment": False}),
    ],
)
def test_an_interpreter_that_does_not_let_the_agent_in(
    tmp_path: Path, script: str, found: dict[str, object]
) -> None:
    answered = ask(program(tmp_path / "python", script))
    assert {name: getattr(answered, name) for name in found} == found
    assert sitecustomize_row(answered).state is State.FAILS


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo no such library >&2; exit 127", "no such library"),
        ("exit 3", "exits with code 3"),
        ("echo hello", "not what was expected"),
    ],
)
def test_what_is_no_interpreter_is_reported_with_its_reason(
    tmp_path: Path, script: str, why: str
) -> None:
    wrapper = program(tmp_path / "python", script)
    with pytest.raises(AskError, match=why) as error:
        ask(wrapper)
    row = python_row(wrapper, error.value)
    assert row.state is State.FAILS
    assert "--python" in row.advice


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(AskError, match="No such file"):
        ask("/nowhere/python")


SCOPE = "proc/sys/kernel/yama/ptrace_scope"


@pytest.mark.parametrize(
    ("scope", "bits", "state"),
    [
        ("0", (), State.OK),
        ("1", (), State.OK),
        ("2", (), State.WARN),
        ("2", (SYS_PTRACE,), State.OK),
        ("3", (SYS_PTRACE,), State.WARN),
    ],
)
def test_ptrace_scope_from_2_on_keeps_pyspy_out(
    tmp_path: Path, scope: str, bits: tuple[int, ...], state: State
) -> None:
    root = tree(tmp_path, {SCOPE: f"{scope}\n", "proc/self/status": capable(*bits)})
    row = scope_row(root)
    assert row.state is state
    assert f"ptrace_scope is {scope}" in row.found
    assert bool(row.advice) is (state is State.WARN)


def test_without_yama_nothing_is_restricted_and_without_proc_nothing_is_known(
    tmp_path: Path,
) -> None:
    assert scope_row(tmp_path).state is State.UNKNOWN
    assert scope_row(tree(tmp_path, {"proc/self/status": capable()})).state is State.OK


@pytest.mark.parametrize(
    ("command", "problem", "state", "words"),
    [
        (None, None, State.WARN, "pip install py-spy"),
        ("py-spy", None, State.UNKNOWN, "not tried"),
        ("py-spy", "", State.OK, "can read a process"),
        ("py-spy", "Permission Denied: x", State.WARN, "SYS_PTRACE"),
        ("py-spy", "Error: no Python", State.WARN, "no Python"),
    ],
)
def test_pyspy_is_judged_by_what_it_could_read(
    command: str | None, problem: str | None, state: State, words: str
) -> None:
    assert says(pyspy_row(command, problem), state, words)


@pytest.mark.subprocess
@pytest.mark.skipif(find_pyspy() is None, reason="py-spy is not installed")
def test_pyspy_is_tried_on_a_real_child() -> None:
    # Where the system refuses, its message is the answer.
    assert try_pyspy(sys.executable) is not None


@pytest.mark.subprocess
def test_what_pyspy_says_is_kept(tmp_path: Path) -> None:
    message = "Permission Denied: try again"
    fake = program(tmp_path / "py-spy", f"echo 'log' >&2; echo '{message}' >&2; exit 1")
    assert try_pyspy(sys.executable, fake) == message
    assert try_pyspy("/nowhere/python", fake) is None
