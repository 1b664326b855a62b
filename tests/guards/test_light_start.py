"""What is not imported before the first frame: each of these would delay it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tui.recorded import write_run

pytestmark = pytest.mark.slow

HEAVY = {
    "libcst": "0.2 s; only a patch that is written needs it",
    "plotext": "only a chart to study draws with it",
    "textual_plotext": "the same",
    "pynvml": "the recorder samples, the app reads",
    "numpy.ma": "0.02 s; np.median and np.unique import it at their first call",
    "torch": "never",
    "perftui.trace.formats": "the first picture does not wait for a window to be read",
    "perftui.fixes.source.rewriting": "LibCST",
}
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


def test_the_first_frame_of_a_run_waits_for_nothing_heavy(tmp_path: Path) -> None:
    root = write_run(tmp_path, gpu=True, workers=2)
    command = [sys.executable, "-c", TELL, str(root)]
    result = subprocess.run(command, capture_output=True, check=True, text=True)
    loaded = set(json.loads(result.stdout))
    assert "perftui_tui.screens.overview.screen" in loaded, "nothing was shown"
    assert {name: why for name, why in HEAVY.items() if name in loaded} == {}
    assert not {f"perftui_tui.screens.{name}" for name in OTHER_SCREENS} & loaded
