"""Pictures of every screen, from the real app on real recorded runs.

Records the bundled demo twice, as it is and with the fix that the diagnosis offers, and opens the
second run: so every screen has something true to show. ``python screenshots/make.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from perftui.diagnosis.diagnose import diagnose
from perftui.diagnosis.evidence import gather
from perftui.experiments.rerun import rerun_launch
from perftui.fixes.catalogue import options
from perftui.recorder.launch import Launch, start
from perftui.recorder.options import AgentOptions
from perftui.run.reader import RunReader, RunSnapshot
from perftui_tui import demo
from perftui_tui.app import PerftuiApp
from perftui_tui.key_table import SCREENS

sys.path.insert(0, str(Path(__file__).parent))

from raster import save_png

HERE = Path(__file__).parent
SIZES = ((80, 24), (120, 40), (200, 50))
STEPS = 150
"""Steps of each run: enough for a verdict, seconds to record."""

PATIENCE = 300.0
"""Seconds for one run on a slow machine."""


def main() -> int:
    """Record, draw, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=HERE, help="where the pictures go")
    parser.add_argument("--run", type=Path, help="draw this recorded run instead")
    parser.add_argument("--trace", type=Path, help="draw this trace file too, as trace-*")
    arguments = parser.parse_args()
    if arguments.run is None and importlib.util.find_spec("torch") is None:
        print(
            "screenshots: torch is not installed here, so no training can be recorded; "
            "install perftui[torch], or draw a recorded run with --run DIR",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="perftui-screenshots-") as folder:
        runs = (arguments.run, arguments.run) if arguments.run else record(Path(folder))
        asyncio.run(draw_all(*runs, arguments.out))
        if arguments.trace is not None:
            asyncio.run(draw_trace(arguments.trace, arguments.out))
    return 0


def record(folder: Path) -> tuple[Path, Path]:
    """The demo as it is, and with its best fix."""
    script = folder / "train.py"
    shutil.copyfile(Path(demo.__file__).with_name("train.py"), script)
    launch = Launch(
        command=(sys.executable, "train.py"),
        cwd=folder,
        runs=folder / ".perftui" / "runs",
        options=AgentOptions(max_steps=STEPS),
    )
    print(f"recording {STEPS} steps of the demo")
    before = finished(start(launch))
    evidence = gather(before, None)
    found = diagnose(evidence).top
    fixes = [fix for fix in (options(found, evidence) if found else ()) if fix.override]
    if not fixes:
        raise SystemExit(f"screenshots: no fix is offered for {found}")
    print(f"recording it again with {fixes[0].title}")
    again = replace(rerun_launch(before, fixes[0]), options=launch.options)
    return before.root, finished(start(again)).root


def finished(root: Path) -> RunSnapshot:
    """The run at ``root`` once it is over."""
    return asyncio.run(_finished(root))


async def _finished(root: Path) -> RunSnapshot:
    reader = RunReader(root)
    async with asyncio.timeout(PATIENCE):
        while not (run := reader.poll()).manifest.status.is_over:
            await asyncio.sleep(0.2)
    return run


async def draw_all(before: Path, after: Path, out: Path) -> None:
    """Every screen at every size: the slow run, and on Compare the one with the fix."""
    out.mkdir(parents=True, exist_ok=True)
    for columns, rows in SIZES:
        for screen in SCREENS:
            root = after if screen == "compare" else before
            path = out / f"{screen}-{columns}x{rows}"
            await draw(root, screen, (columns, rows), path)
            print(f"{path}.png")


async def draw_trace(trace: Path, out: Path) -> None:
    """The screens that say something of a trace file, the timeline at its largest gap."""
    for columns, rows in SIZES:
        for screen in ("overview", "timeline", "ops", "diagnosis"):
            path = out / f"trace-{screen}-{columns}x{rows}"
            await draw(trace, screen, (columns, rows), path, *("g" if screen == "timeline" else ""))
            print(f"{path}.png")


async def draw(root: Path, screen: str, size: tuple[int, int], path: Path, *keys: str) -> None:
    """Open ``root``, go to ``screen``, press ``keys``, and write ``path`` as SVG and PNG."""
    app = PerftuiApp(root, replay=True)
    async with app.run_test(size=size) as pilot:
        await _ready(app, pilot)
        app.action_show(screen)
        await _rest(pilot)
        if keys:
            await pilot.press(*keys)
            await _rest(pilot)
        path.with_suffix(".svg").write_text(app.export_screenshot(), encoding="utf-8")
        rows = [list(strip) for strip in app.screen._compositor.render_strips()]
        save_png(rows, size[0], app.ansi_theme, path.with_suffix(".png"))


async def _rest(pilot: Pilot[None]) -> None:
    """Let notices go and layouts settle."""
    for _ in range(20):
        await pilot.pause(0.1)


async def _ready(app: PerftuiApp, pilot: Pilot[None]) -> None:
    """Wait for the data, and for the window where the run has one."""
    async with asyncio.timeout(60):
        while app.snapshot is None or (app.target.is_dir() and not app.output.lines):
            await pilot.pause(0.1)
        rank = app.snapshot.rank
        while rank is not None and rank.windows and app.snapshot.analysis is None:
            await pilot.pause(0.1)


if __name__ == "__main__":
    sys.exit(main())
