"""Runs the app on something that can be read, and prints the outcome."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

from perftui_tui.commands.line import CommandLine
from perftui_tui.commands.output import log
from perftui_tui.commands.terminal import draws_ascii, leave_splash, splash, theme_name

if TYPE_CHECKING:
    from perftui.trace.ncu import KernelMetrics
    from perftui.trace.rank_files import RankFile
    from perftui_tui.app import PerftuiApp

INTERRUPTED = 130
"""The exit code of a command that an interrupt (SIGINT) ended, as shells give it."""


def show(
    target: Path,
    line: CommandLine,
    *,
    is_replay: bool,
    attached: bool = False,
    notes: tuple[str, ...] = (),
    ranks: tuple[RankFile, ...] = (),
    metrics: KernelMetrics | None = None,
) -> int:
    """Show the run or trace at ``target`` until the user leaves; returns the exit code.

    ``attached`` watches a run that somebody else started: leaving it asks nothing. ``notes`` are
    shown in the app, and the traces of ``ranks`` can be opened there. ``metrics`` are what ncu
    measured of the kernels.
    """
    is_run = target.is_dir()
    try:
        splash()
        # What a start makes stays: to look for garbage in it took a tenth of the time until the
        # first frame, and would go on to take hundredths of a second between two keys.
        gc.disable()
        app = _make_app(target, line, is_replay=is_replay and not attached)
        app.attached_to = target if attached else None
        app.notes, app.ranks, app.kernel_metrics = notes, ranks, metrics
        app.once_made = _look_for_garbage
        app.run()
    except KeyboardInterrupt:
        leave_splash()
        if is_run:
            from perftui_tui.commands.farewell import farewell

            farewell(target, is_replay=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - reported: a training may have been started
        from perftui_tui.commands.farewell import report_crash

        leave_splash()
        return report_crash(error, target)
    finally:
        gc.enable()
    from perftui_tui.commands.achieved import achieved
    from perftui_tui.commands.farewell import farewell, report_crash

    if app.crash is not None:
        return report_crash(app.crash, app.target)
    if app.failure is not None:
        from perftui.trace.remote import named

        log(f"perftui: {named(app.failure)}")
        return 2
    if not is_run:
        return app.return_code or 0
    is_replay = is_replay and app.own in (None, target)
    root = app.target if is_replay else app.own or app.target
    done = tuple(achieved(app))
    return farewell(root, is_replay=is_replay, stopping=app.is_stopping, achieved=done)


def _look_for_garbage() -> None:
    gc.freeze()
    gc.enable()


def _make_app(target: Path, line: CommandLine, *, is_replay: bool) -> PerftuiApp:
    no_color = os.environ.get("NO_COLOR")
    theme = theme_name(line)
    from perftui_tui.app import PerftuiApp
    from perftui_tui.keys.keymap import key_file, read_overrides
    from perftui_tui.widgets.row_view import RowView

    RowView.ascii_only = draws_ascii(line)
    app = PerftuiApp(target, replay=is_replay, theme=theme, keys=read_overrides(key_file()))
    if no_color is not None:
        # Textual takes the variable out of the environment; a training started again needs it.
        os.environ["NO_COLOR"] = no_color
    return app
