"""The runs in a runs directory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from perftui.run.control import heard_label, is_elsewhere, silent_seconds
from perftui.run.layout import RUNS_DIRECTORY, RunLayout, is_run_directory
from perftui.run.manifest import Manifest, ManifestError, named, run_state


@dataclass(frozen=True)
class RunEntry:
    """One run directory. ``manifest`` is None if it cannot be read; ``problem`` says why."""

    root: Path
    manifest: Manifest | None
    problem: str | None = None
    silent: float | None = None
    """Seconds since the last sign of life of a recorder on another host, if there ever was one."""

    @property
    def run_id(self) -> str:
        """The name of its directory."""
        return self.root.name


class RunNotFoundError(LookupError):
    """No run matches, or several do; the message lists the candidates."""


def list_runs(runs: Path) -> list[RunEntry]:
    """Every run under ``runs``, newest first by start, damaged ones by the time in their name.

    A directory that does not exist holds none.
    """
    try:
        # Hidden directories are being deleted; links lead elsewhere.
        paths = [path for path in runs.iterdir() if not path.name.startswith(".")]
        roots = [path for path in paths if path.is_dir() and not path.is_symlink()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(map(entry_of, roots), key=_age, reverse=True)


def find_run(runs: Path, identifier: str) -> RunEntry:
    """The run whose id is ``identifier``, or the only one that begins or ends with it.

    Raises:
        RunNotFoundError: none matches, or several do.
    """
    entries = list_runs(runs)
    exact = [entry for entry in entries if entry.run_id == identifier]
    near = exact or [
        entry
        for entry in entries
        if entry.run_id.startswith(identifier) or entry.run_id.endswith(f"-{identifier}")
    ]
    if len(near) == 1:
        return near[0]
    if near:
        names = ", ".join(entry.run_id for entry in near[:5])
        raise RunNotFoundError(f"{identifier!r} could be any of {len(near)} runs: {names}")
    raise RunNotFoundError(f"no run {identifier!r} in {runs}")


def newest_run(directory: Path) -> Path | None:
    """``directory`` if it is a run, else the newest readable one in it or its ``.perftui/runs``.

    None where there is no such run.
    """
    if is_run_directory(directory):
        return directory
    runs = [
        (entry.manifest.started_ns, entry.root)
        for parent in (directory, directory / RUNS_DIRECTORY)
        for entry in list_runs(parent)
        if entry.manifest is not None
    ]
    return max(runs)[1] if runs else None


def recorded_where(entry: RunEntry) -> str | None:
    """``recording on node7, last heard 3 s ago``; None if that is this host, or the run is over."""
    if entry.manifest is None or not is_elsewhere(entry.manifest):
        return None
    heard = "" if entry.silent is None else f", {heard_label(entry.silent)}"
    return f"recording on {entry.manifest.host}{heard}"


def entry_of(root: Path) -> RunEntry:
    """The run in the directory ``root``."""
    try:
        manifest = run_state(root)
        silent = None
        if is_elsewhere(manifest):
            silent = silent_seconds(RunLayout(root).heartbeat, time.time_ns())
        return RunEntry(root, named(manifest, root), silent=silent)
    except ManifestError as error:
        return RunEntry(root, None, str(error))


def _age(entry: RunEntry) -> tuple[int, str]:
    started = entry.manifest.started_ns if entry.manifest else _time_in(entry.run_id)
    return started, entry.run_id


def _time_in(run_id: str) -> int:
    """Local time at the beginning of a name, as ns since the epoch; 0 if there is none.

    An hour is ambiguous when clocks are set back, so a manifest is asked first.
    """
    try:
        return int(time.mktime(time.strptime(run_id[:15], "%Y%m%d-%H%M%S"))) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0
