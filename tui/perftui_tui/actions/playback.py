"""Playback of a saved run on the screens: position, speed, and the thread that makes snapshots."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.reading.source import Post, ReadingThread, SnapshotReceived

if TYPE_CHECKING:
    from textual.timer import Timer

    from perftui.analysis.model import TraceAnalysis
    from perftui.run.as_of import Stops
    from perftui.run.reader import RunSnapshot
    from perftui_tui.actions.host import Host
    from perftui_tui.reading.snapshot import Snapshot
    from perftui_tui.reading.view import Pictures

SPEEDS = (0.5, 1, 2, 5, 10, 30, 100, 300, 1000, 3000)
"""Seconds of the run in a second."""

TICK_SECONDS = 0.25
"""Four pictures a second: a run is played for a person, and over SSH each costs kilobytes."""

CACHED_WINDOWS = 2
"""Analysed windows in the cache: a step back and forth reads none again."""


@dataclass(frozen=True)
class Position:
    """The state that the bar shows."""

    stops: Stops
    at: int
    """ns since the epoch."""
    playing: bool = False
    speed: float = 10

    @property
    def step(self) -> int:
        """Number of recorded steps that had ended."""
        return self.stops.steps_at(self.at)

    @property
    def is_end(self) -> bool:
        """Whether everything is known."""
        return self.at >= self.stops.end

    @property
    def share(self) -> float:
        """Share of the whole time that has been played, 0 to 1."""
        whole = self.stops.end - self.stops.start
        return (self.at - self.stops.start) / whole if whole else 1.0


class Playback:
    """Moves through the run on screen; the screens show it as it was known then."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self.position: Position | None = None
        """The position; None while nothing is played."""
        self._final: Snapshot | None = None
        self._player: PlayingThread | None = None
        self._timer: Timer | None = None

    @property
    def is_on(self) -> bool:
        return self.position is not None

    def takes(self, snapshot: Snapshot) -> bool:
        """Whether a picture of an earlier time is still wanted."""
        position = self.position
        return position is not None and not position.is_end and snapshot.source == self._app.target

    def finished(self, final: Snapshot) -> bool:
        """Keep the newest snapshot of the run; whether it is to be shown now."""
        if self.position is None:
            return True
        self._final = final
        return self.position.is_end

    def begin(self) -> str:
        """Begin with the run on screen at its end; returns why not, where it cannot be."""
        from perftui.run.as_of import stops_of

        final = self._app.newest
        if final is None or final.run is None:
            return "only a recorded run can be played"
        if final.phase.is_live:
            return "this run is still going on: it can be played once it has ended"
        stops = stops_of(final.run, final.rank_number)
        if not len(stops.ends):
            return "this run has no steps to play"
        self._final = final
        self._player = PlayingThread(final.run, final.rank_number, self._app.post_message)
        self._player.start()
        self._timer = self._app.set_interval(TICK_SECONDS, self._tick, pause=True)
        self.position = Position(stops, stops.end)
        return ""

    def end(self) -> None:
        """Show the run as it is known now."""
        final = self._final
        self.stop()
        if final is not None and final.source == self._app.target:
            self._app.take_played(final)

    def stop(self) -> None:
        """Play no more; the screens stay as they are."""
        if self._player is not None:
            self._player.stop()
        if self._timer is not None:
            self._timer.stop()
        self.position = self._final = self._player = self._timer = None

    def toggle(self) -> None:
        """Play, or hold; at the end it begins anew."""
        position = self.position
        if position is None:
            return
        if not position.playing and position.is_end:
            position = replace(position, at=position.stops.start)
        self._move(replace(position, playing=not position.playing))

    def step(self, count: int) -> None:
        """Hold, and go so many steps on or back: each stop is the end of a step."""
        position = self.position
        if position is None:
            return
        number = position.step
        between = position.at > position.stops.at_step(number) and not position.is_end
        if count < 0 and (between or position.is_end):
            # From within a step, back to its beginning; from the end, back to the last step.
            count += 1
        if position.is_end:
            number = len(position.stops.ends)
        self.seek(position.stops.at_step(number + count))

    def seek(self, at: int) -> None:
        """Hold, and go to a time."""
        position = self.position
        if position is not None:
            at = min(max(at, position.stops.start), position.stops.end)
            self._move(replace(position, at=at, playing=False))

    def seek_share(self, share: float) -> None:
        """Hold, and go to a share of the whole time, from 0 to 1."""
        if self.position is not None:
            stops = self.position.stops
            self.seek(stops.start + round(share * (stops.end - stops.start)))

    def faster(self, by: int) -> None:
        position = self.position
        if position is not None:
            place = min(max(bisect.bisect_left(SPEEDS, position.speed) + by, 0), len(SPEEDS) - 1)
            self._move(replace(position, speed=SPEEDS[place]))

    def _tick(self) -> None:
        position = self.position
        if position is None or not position.playing:
            return
        at = position.at + round(TICK_SECONDS * position.speed * 1e9)
        is_end = at >= position.stops.end
        at = min(at, position.stops.end)
        self._move(replace(position, at=at, playing=not is_end))

    def _move(self, position: Position) -> None:
        moved = self.position is None or position.at != self.position.at
        self.position = position
        if self._timer is not None:
            (self._timer.resume if position.playing else self._timer.pause)()
        if moved and position.is_end and self._final is not None:
            self._app.take_played(self._final)
        elif moved and self._player is not None:
            self._player.show(position.at)
        self._app.refresh_bar()


class PlayingThread(ReadingThread):
    """Cuts ``run`` at the time asked for last, judges it as it was then, and posts it."""

    def __init__(self, run: RunSnapshot, rank_number: int, post: Post) -> None:
        super().__init__(run.root, post)
        self._run_snapshot = run
        self._rank_number = rank_number
        self._wanted: int | None = None
        self._changed = threading.Condition()
        self._windows: dict[Path, TraceAnalysis | str] = {}

    def show(self, at: int) -> None:
        """Ask for a time; one that was asked for before and not drawn yet is dropped."""
        with self._changed:
            self._wanted = at
            self._changed.notify()

    def stop(self) -> None:
        super().stop()
        with self._changed:
            self._changed.notify()

    def read(self) -> None:
        """Draw what is asked for. Raises LoadCancelled if it was stopped while it read a window."""
        from perftui_tui.reading.view import Pictures

        pictures = Pictures(self._rank_number, self.stopped.is_set)
        while (at := self._next()) is not None:
            for picture in self._drawn(at, pictures):
                self.report(SnapshotReceived(picture))

    def _next(self) -> int | None:
        with self._changed:
            while self._wanted is None and not self.stopped.is_set():
                self._changed.wait()
            at, self._wanted = self._wanted, None
            return None if self.stopped.is_set() else at

    def _drawn(self, at: int, pictures: Pictures) -> Iterator[Snapshot]:
        """At once without a window that is not read yet, then with it."""
        from perftui.run.as_of import as_of
        from perftui_tui.reading.view import open_window

        run = as_of(self._run_snapshot, at)
        rank = run.rank(self._rank_number)
        window = rank.windows[-1] if rank and rank.windows else None
        if window is not None and window not in self._windows:
            yield pictures.make(run, None, at, as_of=at)
            opened = open_window(window, self.stopped.is_set, is_over=True)
            while len(self._windows) >= CACHED_WINDOWS:
                self._windows.pop(next(iter(self._windows)))
            self._windows[window] = opened
        if rank is not None:
            pictures.allocations.read(rank)
        shown = self._windows[window] if window else None
        analysis, problem = (None, shown) if isinstance(shown, str) else (shown, None)
        yield pictures.make(run, analysis, at, problem, as_of=at)
