"""Each screen with the light theme, as pictures, and in ASCII at each size, as text.

After a change that is meant: ``pytest tests/tui/test_pictures_elsewhere.py --snapshot-update``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from perftui_tui.app import PerftuiApp
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import text_of, until
from tests.tui.recorded import NOW, write_run
from tests.tui.test_memory_screen import OVER
from tests.tui.test_pictures import SIZES, Compare, settled
from tests.tui.traces import write_trace

pytestmark = pytest.mark.snapshot

OF_RUNS = ("overview", "diagnosis", "compare", "log", "memory", "ranks", "runs")
OF_TRACES = ("overview", "timeline", "ops")


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A run with one before it, and a trace; where they lie does not show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("perftui_tui.screens.runs.shown_directory", lambda path: path.name)
    runs = Path("runs").absolute()
    before = write_run(runs, wait_ms=200, workers=2, **OVER)
    run_id = "20231114-231320-train"
    run = write_run(runs, gpu=True, workers=2, run_id=run_id, parent=before.name, **OVER)
    return {"run": run, "trace": write_trace(tmp_path, steps=24)}


CASES = [*(("run", screen) for screen in OF_RUNS), *(("trace", screen) for screen in OF_TRACES)]


@pytest.mark.parametrize(("kind", "screen"), CASES, ids=map("-".join, CASES))
def test_light(snap_compare: Compare, targets: dict[str, Path], kind: str, screen: str) -> None:
    app = PerftuiApp(targets[kind], theme="perftui-light", clock=lambda: NOW)
    assert snap_compare(app, terminal_size=(120, 40), run_before=settled(screen))


@pytest.mark.parametrize("size", SIZES, ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize(("kind", "names"), [("run", OF_RUNS), ("trace", OF_TRACES)])
async def test_ascii(
    snapshot: SnapshotAssertion,
    targets: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    names: tuple[str, ...],
    size: tuple[int, int],
) -> None:
    monkeypatch.setattr(RowView, "ascii_only", True)
    app = PerftuiApp(targets[kind], clock=lambda: NOW)
    shown = []
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")
        for name in names:
            await settled(name)(pilot)
            shown.append(text_of(app))
    assert "\n\n".join(shown) == snapshot
