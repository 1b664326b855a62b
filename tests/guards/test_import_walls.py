"""What is imported, seen from a fresh interpreter: walls between the rooms, what a script that
trains pays for ``import perftui``, and what the first frame of the app waits for."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perftui
from tests.tui.recorded import write_run

CORE = Path(__file__).parents[2] / "core" / "perftui"


def core_modules() -> list[str]:
    modules = []
    for path in sorted(CORE.rglob("*.py")):
        if path.parent.name == "inject" or path.name == "__main__.py":
            continue
        parts = ["perftui", *path.relative_to(CORE).with_suffix("").parts]
        modules.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return modules


def printed_by(script: str, *arguments: str) -> set[str]:
    """The names that ``script`` prints as JSON in a fresh interpreter."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout))


def modules_after(code: str) -> set[str]:
    """All that is imported after ``code``."""
    return printed_by(f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))")


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
    interface, parts = {"textual", "rich", "plotext"}, {"numpy", "torch", "msgspec"}
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


HEAVY = {
    "plotext": "only a chart to study draws with it",
    "textual_plotext": "the same",
    "pynvml": "the recorder samples, the app reads",
    "numpy.ma": "0.02 s; np.median and np.unique import it at their first call",
    "torch": "never",
    "perftui.trace.formats": "the first picture does not wait for a window to be read",
}
"""What is not imported before the first frame: each of these would delay it."""

OTHER_SCREENS = ("timeline", "ops", "diagnosis", "compare", "log", "memory", "ranks", "runs")

TELL = """
import asyncio, json, sys
from pathlib import Path
from perftui_tui.app import PerftuiApp

class First(PerftuiApp):
    def watch_snapshot(self):
        if loaded is None:
            self.call_after_refresh(self.note)
        super().watch_snapshot()

    def note(self):
        global loaded
        loaded = loaded or sorted(sys.modules)

loaded = None

async def main():
    async with First(Path(sys.argv[1])).run_test(size=(120, 40)) as pilot:
        while loaded is None:
            await pilot.pause(0.01)

asyncio.run(main())
print(json.dumps(loaded))
"""


@pytest.mark.slow
def test_the_first_frame_of_a_run_waits_for_nothing_heavy(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True, workers=2)
    loaded = printed_by(TELL, str(root))
    assert "perftui_tui.screens.overview.screen" in loaded, "nothing was shown"
    assert {name: why for name, why in HEAVY.items() if name in loaded} == {}
    assert not {f"perftui_tui.screens.{name}" for name in OTHER_SCREENS} & loaded
