"""What is imported, seen from a fresh interpreter: walls between the rooms, and what a script that
trains pays for ``import perftui``."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perftui

CORE = Path(__file__).parents[2] / "core" / "perftui"


def core_modules() -> list[str]:
    modules = []
    for path in sorted(CORE.rglob("*.py")):
        if path.parent.name == "inject" or path.name == "__main__.py":
            continue
        parts = ["perftui", *path.relative_to(CORE).with_suffix("").parts]
        modules.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return modules


def modules_after(code: str) -> set[str]:
    """All that is imported after ``code`` in a fresh interpreter."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout))


@pytest.mark.slow
def test_core_loads_neither_a_user_interface_nor_torch() -> None:
    modules = core_modules()
    assert len(modules) > 20
    loaded = modules_after("\n".join(f"import {module}" for module in modules))
    assert not loaded & {"textual", "rich", "plotext", "perftui_tui", "torch"}


def test_help_loads_no_framework() -> None:
    code = (
        "from perftui_tui.cli import main\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(['--help'])\n"
    )
    interface, parts = {"textual", "rich", "plotext"}, {"numpy", "torch", "libcst", "msgspec"}
    heavy = interface | parts | {"asyncio", "psutil", "mcp", "pydantic"}
    assert not modules_after(code) & heavy


@pytest.mark.parametrize("package", ["perftui", "perftui_tui"])
def test_packages_are_typed(package: str) -> None:
    root = {"perftui": CORE, "perftui_tui": CORE.parents[1] / "tui" / "perftui_tui"}[package]
    assert (root / "py.typed").is_file()


def test_importing_it_and_marking_loads_nothing_else() -> None:
    marks = "import perftui\nwith perftui.range('a'):\n    perftui.step()"
    own = {"perftui", "perftui.agent", "perftui.agent.marks"}

    assert modules_after(marks) - modules_after("") - {"__future__"} == own


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
