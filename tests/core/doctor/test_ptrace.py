"""Rows about who may read a process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perftui.doctor.interpreter import Attempt, pyspy_row, scope_row, try_pyspy
from perftui.doctor.row import SYS_PTRACE, State
from perftui.recorder.stacks.pyspy import find_pyspy
from tests.core.doctor.trees import capable, tree

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
    ("command", "attempt", "state", "words"),
    [
        (None, None, State.WARN, "pip install py-spy"),
        ("py-spy", None, State.UNKNOWN, "not tried"),
        ("py-spy", Attempt(worked=True), State.OK, "can read a process"),
        ("py-spy", Attempt(worked=False, message="Permission Denied: x"), State.WARN, "SYS_PTRACE"),
        ("py-spy", Attempt(worked=False, message="Error: no Python"), State.WARN, "no Python"),
    ],
)
def test_pyspy_is_judged_by_what_it_could_read(
    command: str | None, attempt: Attempt | None, state: State, words: str
) -> None:
    row = pyspy_row(command, attempt)
    assert row.state is state
    assert words in f"{row.found} {row.advice}"


@pytest.mark.subprocess
@pytest.mark.skipif(find_pyspy() is None, reason="py-spy is not installed")
def test_pyspy_is_tried_on_a_real_child() -> None:
    attempt = try_pyspy(sys.executable)
    assert attempt is not None
    # Where the system refuses, that is the answer.
    assert attempt.worked or attempt.message


@pytest.mark.subprocess
def test_what_pyspy_says_is_kept(tmp_path: Path) -> None:
    fake = tmp_path / "py-spy"
    fake.write_text("#!/bin/sh\necho 'log' >&2\necho 'Permission Denied: try again' >&2\nexit 1\n")
    fake.chmod(0o755)
    assert try_pyspy(sys.executable, str(fake)) == Attempt(
        worked=False, message="Permission Denied: try again"
    )
    assert try_pyspy("/nowhere/python", str(fake)) is None
