"""Leave to read the training's memory, where Linux asks that it be declared."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from perftui.agent.startup.process import PR_SET_PTRACER, declare
from perftui.recorder import pyspy as tracers


@pytest.mark.parametrize(
    ("scope", "samples", "pyspy", "declared"),
    [
        ("1\n", 10, "/bin/py-spy", True),
        ("0\n", 10, "/bin/py-spy", False),
        ("2\n", 10, "/bin/py-spy", False),
        (None, 10, "/bin/py-spy", False),
        ("1\n", 0, "/bin/py-spy", False),
        ("1\n", 10, None, False),
    ],
    ids=["restricted", "classic", "admin only", "no Yama", "no samples", "no py-spy"],
)
def test_it_is_declared_only_where_that_lets_pyspy_look(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scope: str | None,
    samples: int,
    pyspy: str | None,
    declared: bool,
) -> None:
    monkeypatch.setattr(tracers, "SCOPE", tmp_path / "ptrace_scope")
    if scope is not None:
        tracers.SCOPE.write_text(scope)
    monkeypatch.setattr(tracers, "find_pyspy", lambda: pyspy)
    assert tracers.tracer(samples) == (os.getpid() if declared else 0)


def test_the_agent_declares_the_process_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []

    class Libc:
        def prctl(self, option: int, process: ctypes.c_ulong, *_: int) -> None:
            calls.append((option, process.value))

    monkeypatch.setattr(ctypes, "CDLL", lambda _: Libc())
    declare(0)
    assert calls == []
    declare(4242)
    assert calls == [(PR_SET_PTRACER, 4242)]


def test_a_system_without_yama_is_no_error() -> None:
    declare(os.getpid())
