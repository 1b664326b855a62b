"""Which pictures there are, and how one is taken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patience import until
from PIL import Image
from raster import paint
from textual.pilot import Pilot

from perftui.run.layout import RunLayout
from perftui_tui.app import PerftuiApp

SIZES = ((80, 24), (120, 40), (200, 50))
PNG_SIZE = (120, 40)
"""Of this size there is also a PNG: the README shows it."""


@dataclass(frozen=True)
class Shot:
    """One picture: a screen, the keys pressed on it, and the run that it is of."""

    name: str
    screen: str
    keys: tuple[str, ...] = ()
    run: str = "before"
    """A field of ``recorded.Runs``."""


SHOTS = (
    Shot("overview", "overview"),
    Shot("timeline", "timeline"),
    Shot("ops", "ops"),
    Shot("ops-opened", "ops", ("enter",)),
    Shot("diagnosis", "diagnosis"),
    Shot("compare", "compare", run="after"),
    Shot("log", "log"),
    Shot("memory", "memory"),
    Shot("ranks", "ranks", run="ranks"),
    Shot("ranks-timeline", "timeline", ("r",), run="ranks"),
    Shot("gpu-overview", "overview", run="gpu"),
    Shot("gpu-timeline", "timeline", ("g",), run="gpu"),
    Shot("gpu-kernels", "ops", ("k",), run="gpu"),
    Shot("gpu-memory", "memory", run="gpu"),
    Shot("gpu-phases", "overview", ("C", *"nnnn"), run="gpu"),
    Shot("runs", "runs"),
    Shot("charts", "overview", ("C",)),
    Shot("played", "overview", ("P", *["shift+left"] * 5)),
    Shot("help", "overview", ("question_mark",)),
    Shot("try-fix", "diagnosis", ("a",)),
    Shot("write-fix", "diagnosis", ("w",)),
)


async def take(root: Path, shot: Shot, size: tuple[int, int], path: Path) -> None:
    """Open ``root``, go to the screen, press the keys, and write ``path`` as SVG, and as PNG."""
    app = PerftuiApp(root, replay=True)
    async with app.run_test(size=size) as pilot:
        await until_ready(app, pilot)
        app.action_show(shot.screen)
        await _rest(pilot)
        if shot.keys:
            await pilot.press(*shot.keys)
            await _rest(pilot)
        path.with_suffix(".svg").write_text(app.export_screenshot(), encoding="utf-8")
        if size == PNG_SIZE:
            fewer_colours(frame(app)).save(path.with_suffix(".png"), optimize=True)


def frame(app: PerftuiApp) -> Image.Image:
    """The screen as it is now."""
    rows = [list(strip) for strip in app.screen._compositor.render_strips()]
    return paint(rows, app.size.width, app.ansi_theme)


def fewer_colours(image: Image.Image, most: int = 256) -> Image.Image:
    """The same to the eye in a third of the bytes."""
    return image.quantize(most, dither=Image.Dither.NONE)


async def _rest(pilot: Pilot[None]) -> None:
    """Let notices go and layouts settle."""
    for _ in range(20):
        await pilot.pause(0.1)


def _has_output(root: Path) -> bool:
    log = RunLayout(root).output
    return log.is_file() and log.stat().st_size > 0


async def until_ready(app: PerftuiApp, pilot: Pilot[None]) -> None:
    """Wait for the data, and for the window where the run has one."""

    def is_ready() -> bool:
        snapshot = app.snapshot
        if snapshot is None or (_has_output(app.target) and not app.output.lines):
            return False
        has_window = snapshot.rank is not None and bool(snapshot.rank.windows)
        return snapshot.analysis is not None or not has_window

    await until(is_ready, lambda: pilot.pause(0.1))
