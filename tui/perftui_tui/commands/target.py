"""From what the user names to the run or the trace that is meant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.trace.remote import is_url, without_secrets
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import copy_progress, list_progress

if TYPE_CHECKING:
    from perftui.trace.rank_files import RankFile


@dataclass(frozen=True)
class Target:
    """A run directory or a file, and what else the directory holds that was named."""

    path: Path
    notes: tuple[str, ...] = ()
    """What was passed over in choosing; not yet safe to show."""
    ranks: tuple[RankFile, ...] = ()
    """The traces of all ranks, ``path`` among them; empty unless a directory of them was named."""
    rank: int | None = None
    """The rank of a run that was asked for."""


def find_target(line: CommandLine) -> Target:
    """The path given, a run's id, or the newest run; of a directory of traces the rank asked for.

    Raises:
        UsageError: there is none.
    """
    rank = line.number("rank")
    word = line.words[0] if line.words else None
    target = _newest(runs_directory(line)) if word is None else _named(word, rank, line)
    if "trust" in line.flags:
        _trust(target.path)
    if rank is None or target.ranks:
        return target
    if line.action == "report" and target.path.is_dir():
        return replace(target, rank=rank)
    raise UsageError(
        f"--rank needs a directory of traces, or with report a run; {target.path} is neither"
    )


def _trust(root: Path) -> None:
    """Take the run for the user's own, with its patches and trials."""
    from perftui.fixes.apply import patch_store
    from perftui.run.layout import trials_of
    from perftui.run.origin import trust

    for path in (root, patch_store(root), trials_of(root)):
        trust(path)


def runs_directory(line: CommandLine) -> Path:
    """Where runs are looked for."""
    from perftui.run.layout import RUNS_DIRECTORY

    return Path(line.values.get("runs", RUNS_DIRECTORY)).absolute()


def _named(word: str, rank: int | None, line: CommandLine) -> Target:
    if is_url(word):
        return _remote(word, rank)
    path = Path(word)
    try:
        if path.is_dir():
            return _inside(path.absolute(), rank)
        if path.exists():
            return _file(path.absolute())
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    return Target(run_by_id(word, runs_directory(line)))


def _remote(url: str, rank: int | None) -> Target:
    """A trace of another place, which is copied; of a directory the one that is to be opened."""
    from perftui.trace.model import TraceError
    from perftui.trace.remote import fill, mirror, named

    try:
        path = mirror(url, list_progress(without_secrets(url)))
        found = Target(path) if path.is_file() else _trace_inside(path, rank)
        fill(found.path, copy_progress(named(str(found.path))))
    except (TraceError, OSError) as error:
        raise UsageError(str(error)) from error
    return replace(found, notes=tuple(map(named, found.notes)))


def _file(path: Path) -> Target:
    if not path.is_file():
        raise UsageError(
            f"{path} is a pipe or a device, but a trace is read more than once: save it to a file"
        )
    return Target(path)


def run_by_id(word: str, runs: Path) -> Path:
    """The directory of the run in ``runs`` whose id is ``word``, or begins or ends with it.

    Raises:
        UsageError: none is meant, or several are.
    """
    from perftui.run.history import RunNotFoundError, find_run

    try:
        return find_run(runs, word).root
    except RunNotFoundError as error:
        raise UsageError(f"no such file: {word}, and {error}; perftui runs lists them") from error


def _newest(runs: Path) -> Target:
    from perftui.run.history import newest_run

    run = newest_run(runs)
    if run is None:
        raise UsageError(f"no recorded run in {runs}; name a run or a trace")
    return Target(run)


def _inside(directory: Path, rank: int | None) -> Target:
    """The run that ``directory`` is or holds, else a trace in it."""
    from perftui.run.history import newest_run

    run = newest_run(directory)
    return Target(run) if run is not None else _trace_inside(directory, rank)


def _trace_inside(directory: Path, rank: int | None) -> Target:
    from perftui.trace.formats import ENDINGS
    from perftui.trace.model import TraceError
    from perftui.trace.recordings import choose_rank

    try:
        chosen = choose_rank(directory, rank)
    except TraceError as error:
        raise UsageError(str(error)) from error
    if chosen is None:
        raise UsageError(
            f"{directory} contains neither a recorded run nor a trace "
            f"(*{', *'.join(ENDINGS)}){_unreadable(directory)}"
        )
    return Target(chosen.path, chosen.notes, chosen.ranks)


def _unreadable(directory: Path) -> str:
    from perftui.trace.formats import unreadable_files

    locked = unreadable_files(directory)
    return f"; {locked[0]} cannot be read: permission denied" if locked else ""
