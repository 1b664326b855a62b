"""Rows about the interpreter that trains."""

from __future__ import annotations

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
    python_row,
    sitecustomize_row,
    torch_row,
)
from perftui.doctor.row import State
from tests.core.doctor.trees import GOOD


def given(**fields: object) -> Interpreter:
    return msgspec.structs.replace(GOOD, **fields)


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
    wrapper = tmp_path / "python"
    wrapper.write_text(f"#!/bin/sh\n{script}\n")
    wrapper.chmod(0o755)
    answered = ask(str(wrapper))
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
    wrapper = tmp_path / "python"
    wrapper.write_text(f"#!/bin/sh\n{script}\n")
    wrapper.chmod(0o755)
    with pytest.raises(AskError, match=why) as error:
        ask(str(wrapper))
    row = python_row(str(wrapper), error.value)
    assert row.state is State.FAILS
    assert "--python" in row.advice


def test_an_interpreter_that_is_not_there() -> None:
    with pytest.raises(AskError, match="No such file"):
        ask("/nowhere/python")
