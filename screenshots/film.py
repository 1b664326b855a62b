"""A short film of the app at work: a slow training, its cause, the proof of the fix, the edit.

The frames are those of the app on a training that really runs, taken as they are. Waiting is cut
short: the film runs faster than the clock, by a factor that is told when it is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from patience import until
from PIL import Image, ImageChops
from recorded import demo_launch, stop_all
from shots import fewer_colours, frame
from textual.pilot import Pilot

from perftui.recorder.launch import start
from perftui_tui.app import PerftuiApp
from perftui_tui.demo import trainings

SIZE = (120, 40)
LENGTH = 20.0
"""Seconds of film, the moments held still among them."""

EVERY, HOLD = 0.5, 2.5
"""Seconds of the clock between two frames, and those of film on a picture that is to be read."""

COLOURS = 48


@dataclass
class _Film:
    app: PerftuiApp
    pilot: Pilot[None]
    frames: list[Image.Image] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    """When each frame was taken."""
    held: set[int] = field(default_factory=set)
    """Frames to hold still."""

    def shoot(self) -> None:
        """Take a frame."""
        self.frames.append(frame(self.app))
        self.clock.append(time.monotonic())

    async def until(self, condition: Callable[[], object]) -> None:
        """Take frames till ``condition`` holds."""

        async def shoot_and_wait() -> None:
            self.shoot()
            await self.pilot.pause(EVERY)

        await until(condition, shoot_and_wait)

    async def hold(self) -> None:
        """Let the screen settle, and keep it to be read."""
        await self.pilot.pause(EVERY)
        self.shoot()
        self.held.add(len(self.frames) - 1)

    def save(self, path: Path) -> float:
        """Write the film; returns how many times faster than the clock it is."""
        passed = [after - before for before, after in zip(self.clock, self.clock[1:], strict=False)]
        running = sum(lasts for at, lasts in enumerate(passed) if at not in self.held)
        faster = max(1.0, running / max(1.0, LENGTH - HOLD * len(self.held)))
        images: list[Image.Image] = []
        lasting: list[float] = []
        for at, image in enumerate(self.frames):
            lasts = HOLD if at in self.held else passed[at] / faster
            if images and not ImageChops.difference(images[-1], image).getbbox():
                lasting[-1] += lasts
            else:
                images.append(image)
                lasting.append(lasts)
        first, *others = [fewer_colours(image, COLOURS) for image in images]
        first.save(
            path,
            save_all=True,
            append_images=others,
            duration=[round(1000 * lasts) for lasts in lasting],
            loop=0,
            optimize=True,
        )
        return faster


async def make_film(folder: Path, path: Path) -> None:
    """Run the demo in ``folder`` below the app: prove, write and undo its fix, in ``path``."""
    launch = demo_launch(folder, None, next(iter(trainings())))
    root = start(launch)
    try:
        app = PerftuiApp(root)
        async with app.run_test(size=SIZE) as pilot:
            film = _Film(app, pilot)
            await _story(film)
    finally:
        await stop_all(launch.runs)
    faster = film.save(path)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {faster:.1f} times faster than the clock")


async def _story(film: _Film) -> None:
    app, pilot = film.app, film.pilot

    async def press(key: str, until: Callable[[], object]) -> None:
        await pilot.press(key)
        await film.until(until)
        await film.hold()

    def asks() -> bool:
        return app.is_asking

    def asks_no_more() -> bool:
        return not app.is_asking

    def is_over() -> bool:
        return app.snapshot is not None and not app.snapshot.goes_on

    await film.until(lambda: app.snapshot and app.snapshot.diagnosis.top)
    await film.hold()
    await film.until(is_over)
    await press("4", lambda: app.current_mode == "diagnosis")
    await press("p", asks)
    await pilot.press("enter")
    await film.until(lambda: app.trials.running is not None)
    await film.until(lambda: app.trials.running is None)
    await film.hold()
    # The end of the trial asks as well, and is left for the screen that has the fix.
    await press("escape", asks_no_more)
    await press("w", asks)
    await press("enter", asks_no_more)
    await press("u", asks_no_more)
