"""Each screen at each size with the light theme, as pictures, and in ASCII, as text.

After a change that is meant: ``pytest tests/tui/test_pictures_elsewhere.py --snapshot-update``."""

from pathlib import Path

import pytest
from pytest_textual_snapshot import SVGImageExtension
from syrupy.assertion import SnapshotAssertion

from perftui_tui.app import PerftuiApp
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import opened, text_of
from tests.tui.recorded import ENDED, NOW, write_run
from tests.tui.test_pictures import SIZES, settled
from tests.tui.traces import write_trace

pytestmark = [pytest.mark.snapshot, pytest.mark.slow]

OF_RUNS = ("overview", "diagnosis", "compare", "log", "memory", "ranks", "runs")
OF_TRACES = ("overview", "timeline", "ops")


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A run with one before it, and a trace; where they lie does not show."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("perftui_tui.screens.runs.short_path", lambda path: path.name)
    runs = Path("runs").absolute()
    before = write_run(runs, wait_ms=200, workers=2, **ENDED)
    run_id = "20231114-231320-train"
    run = write_run(runs, gpu=True, workers=2, run_id=run_id, parent=before.name, **ENDED)
    return {"run": run, "trace": write_trace(tmp_path, steps=24)}


LIGHT = {"run": (*OF_RUNS, "charts"), "trace": (*OF_TRACES, "diagnosis")}


@pytest.mark.parametrize("kind", LIGHT)
async def test_light(snapshot: SnapshotAssertion, targets: dict[str, Path], kind: str) -> None:
    """One app goes through all screens and sizes: one for each would take thrice as long."""
    pictures = snapshot.use_extension(SVGImageExtension)
    app = PerftuiApp(targets[kind], theme="perftui-light", clock=lambda: NOW)
    different = []
    async with app.run_test(size=SIZES[0]) as pilot:
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            for name in LIGHT[kind]:
                keys = ("C",) if name == "charts" else ()
                await settled("overview" if keys else name, *keys)(pilot)
                shot = f"{name}-{columns}x{rows}"
                if app.export_screenshot() != pictures(name=shot):
                    different.append(shot)
                if keys:
                    await pilot.press("escape")
    assert different == []


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
    shown = []
    async with opened(targets[kind], size) as (app, pilot):
        for name in names:
            await settled(name)(pilot)
            shown.append(text_of(app))
    assert "\n\n".join(shown) == snapshot
