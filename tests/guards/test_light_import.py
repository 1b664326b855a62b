"""What a script that trains pays for ``import perftui``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import perftui

OWN = {"perftui", "perftui.agent", "perftui.agent.marks"}


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout))


def test_importing_it_and_marking_loads_nothing_else() -> None:
    marks = "import perftui\nwith perftui.range('a'):\n    perftui.step()"

    assert modules_after(marks) - modules_after("") - {"__future__"} == OWN


@pytest.mark.slow
def test_other_names_come_when_they_are_used() -> None:
    assert "numpy" in modules_after("import perftui\nperftui.open_run")
    assert set(perftui.__all__) <= set(dir(perftui))
    for name in perftui.__all__:
        assert getattr(perftui, name).__doc__


def test_a_name_that_there_is_not_is_an_error() -> None:
    untyped: Any = perftui
    with pytest.raises(AttributeError, match="module 'perftui' has no attribute 'open_runs'"):
        untyped.open_runs()
