"""The screens by name; each is imported on its first visit, to keep the first frame quick."""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen


def screens() -> dict[str, Callable[[], Screen[None]]]:
    """What makes each screen."""
    return {
        "overview": _overview,
        "timeline": _timeline,
        "ops": _ops,
        "diagnosis": _diagnosis,
        "compare": _compare,
        "log": _log,
        "memory": _memory,
        "ranks": _ranks,
        "runs": _runs,
    }


def _overview() -> Screen[None]:
    from perftui_tui.screens.overview.screen import OverviewScreen

    return OverviewScreen()


def _timeline() -> Screen[None]:
    from perftui_tui.screens.timeline.screen import TimelineScreen

    return TimelineScreen()


def _ops() -> Screen[None]:
    from perftui_tui.screens.ops.screen import OpsScreen

    return OpsScreen()


def _diagnosis() -> Screen[None]:
    from perftui_tui.screens.diagnosis.screen import DiagnosisScreen

    return DiagnosisScreen()


def _compare() -> Screen[None]:
    from perftui_tui.screens.compare.screen import CompareScreen

    return CompareScreen()


def _log() -> Screen[None]:
    from perftui_tui.screens.log.screen import LogScreen

    return LogScreen()


def _memory() -> Screen[None]:
    from perftui_tui.screens.memory.screen import MemoryScreen

    return MemoryScreen()


def _ranks() -> Screen[None]:
    from perftui_tui.screens.ranks.screen import RanksScreen

    return RanksScreen()


def _runs() -> Screen[None]:
    from perftui_tui.screens.runs.screen import RunsScreen

    return RunsScreen()
