"""From what the user names to the run or the trace that is meant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from perftui.format import did_you_mean, percent, size
from perftui.run.layout import RUNS_DIRECTORY, trials_of
from perftui.run.origin import trust
from perftui.run.reader import RunNotFoundError, find_run, newest_run
from perftui.trace.model import TraceError
from perftui.trace.remote import fill, is_url, mirror, named, without_secrets
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import refusing, waiting
from perftui_tui.look.format import exported

if TYPE_CHECKING:
    from perftui.report.subject import Subject
    from perftui.trace.nsys.report import Exporting
    from perftui.trace.rank_files import RankFile


@dataclass(frozen=True)
class Target:
    """A run directory or a file, and what else the directory holds that was named."""

    path: Path
    notes: tuple[str, ...] = ()
    """What was skipped in choosing; not yet safe to show."""
    ranks: tuple[RankFile, ...] = ()
    """The traces of all ranks, ``path`` among them; empty unless a directory of them was named."""
    rank: int | None = None
    """The rank of a run that was asked for."""


def find_target(line: CommandLine) -> Target:
    """The path, the run of an id, or the newest; of a directory of traces the rank asked for."""
    rank, runs = line.values.get("rank"), runs_directory(line)
    if line.words:
        target = _by_word(line.words[0], rank, runs)
    elif (newest := newest_run(runs)) is not None:
        target = Target(newest)
    else:
        raise UsageError(f"no recorded run in {runs}; name a run or a trace")
    if "trust" in line.flags:
        from perftui.fixes.apply_and_undo import patch_store

        # The run is taken for the user's own, with its patches and trials.
        for path in (target.path, patch_store(target.path), trials_of(target.path)):
            trust(path)
    if rank is None or target.ranks:
        return target
    if line.action == "report" and target.path.is_dir():
        return replace(target, rank=rank)
    raise UsageError(
        f"--rank needs a directory of traces, or with report a run; {target.path} is neither"
    )


def subject_of(target: Target, *, exports: bool = False) -> Subject:
    """The run or the trace, read and analysed; with ``exports`` also what ``nsys`` must export."""
    from perftui.report.subject import SubjectError, load_subject

    name = target.path.name
    with refusing(SubjectError, OSError), waiting(f"reading {name}") as tell:

        def exporting(now: Exporting) -> None:
            tell(exported(name, now.seconds, now.written))

        def progress(read: int, whole: int) -> None:
            tell(
                f"reading {name}, {percent(read / whole)}" if read < whole else f"analysing {name}"
            )

        return load_subject(target.path, exporting if exports else None, target.rank or 0, progress)


def runs_directory(line: CommandLine, directory: Path | None = None) -> Path:
    """The directory in which runs are looked for: of ``directory``, or else the usual one."""
    if directory is not None:
        inside = directory / RUNS_DIRECTORY
        return (inside if inside.is_dir() else directory).absolute()
    runs: Path = line.values.get("runs", Path(RUNS_DIRECTORY))
    return runs.absolute()


def _by_word(word: str, rank: int | None, runs: Path) -> Target:
    """The run that a directory is or holds, else a trace in it; a file, or a run by its id."""
    if is_url(word):
        shown = without_secrets(word)
        with refusing(TraceError, OSError), waiting(f"looking for traces in {shown}") as tell:
            path = mirror(word, lambda n, m: tell(f"{shown}: {n} of {m} traces found"))
            target = Target(path) if path.is_file() else _trace_inside(path, rank)
            file = named(str(target.path))
            fill(target.path, lambda n, m: tell(f"copying {file}: {size(n)} of {size(m)}"))
        return replace(target, notes=tuple(map(named, target.notes)))
    path = Path(word)
    try:
        if path.is_dir():
            run = newest_run(path.absolute())
            return Target(run) if run is not None else _trace_inside(path.absolute(), rank)
        if not path.exists():
            return Target(run_by_id(word, runs))
        if path.is_file():
            return Target(path.absolute())
    except OSError as error:
        raise UsageError(f"{error.filename or path} cannot be read: {error.strerror}") from error
    raise UsageError(
        f"{path.absolute()} is a pipe or a device, but a trace is read more than once: save it to "
        "a file"
    )


def run_by_id(word: str, runs: Path) -> Path:
    """The directory of the run in ``runs`` whose id is ``word``, or begins or ends with it."""
    try:
        return find_run(runs, word).root
    except RunNotFoundError as error:
        names = [path.name for path in runs.glob("*/")]
        near = did_you_mean(word, [*files_beside(word), *names]) or " perftui runs lists them."
        raise UsageError(f"no such file: {word}, and {error}.{near}") from error


def files_beside(word: str) -> list[str]:
    """What is in the directory that ``word`` would be in, as it would be typed."""
    try:
        return [str(path) for path in Path(word).parent.iterdir()]
    except OSError:
        return []


def _trace_inside(directory: Path, rank: int | None) -> Target:
    from perftui.trace.formats import ENDINGS, unreadable_files
    from perftui.trace.recordings import choose_rank

    with refusing(TraceError):
        chosen = choose_rank(directory, rank)
    if chosen is not None:
        return Target(chosen.path, chosen.notes, chosen.ranks)
    locked = unreadable_files(directory)
    unreadable = f"; {locked[0]} cannot be read: permission denied" if locked else ""
    raise UsageError(
        f"{directory} contains neither a recorded run nor a trace "
        f"(*{', *'.join(ENDINGS)}){unreadable}"
    )
