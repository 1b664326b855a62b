"""The walls between the rooms, seen from a fresh interpreter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core" / "perftui"


def core_modules() -> list[str]:
    modules = []
    for path in sorted(CORE.rglob("*.py")):
        if path.parent.name == "inject" or path.name == "__main__.py":
            continue
        parts = ["perftui", *path.relative_to(CORE).with_suffix("").parts]
        modules.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return modules


def loaded_after(code: str) -> set[str]:
    """Top-level modules in ``sys.modules`` after ``code`` in a fresh interpreter."""
    tell = "print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    script = f"import sys, json\n{code}\n{tell}"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    return set(json.loads(result.stdout))


@pytest.mark.slow
def test_core_loads_neither_a_user_interface_nor_torch() -> None:
    modules = core_modules()
    assert len(modules) > 20
    loaded = loaded_after("\n".join(f"import {module}" for module in modules))
    assert not loaded & {"textual", "rich", "plotext", "perftui_tui", "torch"}


def test_help_loads_no_framework() -> None:
    code = (
        "from perftui_tui.cli import main\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(['--help'])\n"
    )
    heavy = {
        "textual",
        "rich",
        "numpy",
        "torch",
        "libcst",
        "plotext",
        "msgspec",
        "asyncio",
        "psutil",
        "mcp",
        "pydantic",
    }
    assert not loaded_after(code) & heavy


@pytest.mark.parametrize("package", ["perftui", "perftui_tui"])
def test_packages_are_typed(package: str) -> None:
    root = {"perftui": CORE, "perftui_tui": CORE.parents[1] / "tui" / "perftui_tui"}[package]
    assert (root / "py.typed").is_file()
