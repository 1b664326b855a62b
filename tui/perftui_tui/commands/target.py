"""From what the user names to the run or the trace that is meant."""

from __future__ import annotations

from pathlib import Path

from perftui_tui.commands.failure import UsageError
from perftui_tui.commands.line import CommandLine


def find_target(line: CommandLine) -> Path:
    """A run directory or a trace file: the path given, a run's id, or the newest run.

    Raises:
        UsageError: there is none, or too many words were given.
    """
    if len(line.words) > 1:
        raise UsageError(f"{line.action} takes one path; {line.words[1]!r} is one too many")
    return _named(line.words[0], line) if line.words else _newest(runs_directory(line))


def runs_directory(line: CommandLine) -> Path:
    """Where runs are looked for."""
    from perftui.run.layout import RUNS_DIRECTORY

    return Path(line.values.get("runs", RUNS_DIRECTORY)).absolute()


def _named(word: str, line: CommandLine) -> Path:
    path = Path(word)
    if path.is_dir():
        return _inside(path).absolute()
    if path.exists():
        return path.absolute()
    return _by_id(word, runs_directory(line))


def _by_id(word: str, runs: Path) -> Path:
    from perftui.run.history import RunNotFoundError, find_run

    try:
        return find_run(runs, word).root
    except RunNotFoundError as error:
        raise UsageError(
            f"there is no file {word}, and {error}; perftui runs lists them"
        ) from error


def _newest(runs: Path) -> Path:
    from perftui.run.history import newest_run

    run = newest_run(runs)
    if run is None:
        raise UsageError(f"there is no recorded run in {runs}; name a run or a trace")
    return run


def _inside(directory: Path) -> Path:
    """The run that ``directory`` is or holds, else the newest trace in it."""
    from perftui.run.history import newest_run
    from perftui.trace.errors import TraceError
    from perftui.trace.find import find_traces

    run = newest_run(directory)
    if run is not None:
        return run
    try:
        traces = find_traces(directory)
    except TraceError as error:
        raise UsageError(str(error)) from error
    if not traces:
        raise UsageError(
            f"{directory} holds neither a recorded run nor a trace (*.json[.gz], *.sqlite)"
        )
    return max(traces, key=lambda path: path.stat().st_mtime_ns)
