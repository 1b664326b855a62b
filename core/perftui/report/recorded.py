"""What a run was recorded with, and what there is of it to open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perftui.recorder.options import options_of
from perftui.run.columns import MEMORY_SNAPSHOT, NSYS_RANGE
from perftui.run.layout import RunLayout
from perftui.run.reader import RankSnapshot, RunSnapshot
from perftui.run.stack_samples import stack_rate_of

REASONS = {
    "warm": "after the warm-up",
    "regular": "scheduled",
    "slow": "after a slow step",
    "asked": "requested",
    "chosen": "requested with --steps",
    "joint": "recorded on another rank",
}
"""By what the agent notes of a window: why it was opened."""

_DETAILS = ("shapes", "stacks", "memory", "modules", "syncs")


@dataclass(frozen=True)
class Recorded:
    """Steps that were profiled; times in ns. ``file`` is None where nsys recorded them."""

    first_step: int
    steps: int
    reason: str
    """One of ``REASONS``; a version to come may know others."""
    stall: int
    """How long the training waited for it."""
    file: Path | None


@dataclass(frozen=True)
class Snapshot:
    """A saved snapshot of torch's GPU allocator."""

    file: Path
    step: int
    reason: str
    """``peak`` or ``out of memory``."""
    peak: int | None
    """Bytes allocated at the highest moment so far, if it is known."""


@dataclass(frozen=True)
class Recording:
    """What was recorded of one rank of a run, and how."""

    options: tuple[str, ...]
    """Options of the recording, in the words of the command line."""
    windows: tuple[Recorded, ...]
    snapshots: tuple[Snapshot, ...]
    nsys: tuple[Path, ...]


def recording_of(run: RunSnapshot, number: int = 0) -> Recording:
    """What is known of how ``run`` was recorded, and of what was of rank ``number``."""
    rank = run.rank(number)
    return Recording(
        options=tuple(_options(run.manifest.profile)),
        windows=tuple(_windows(run, rank)) if rank else (),
        snapshots=tuple(_snapshots(run, rank)) if rank else (),
        nsys=tuple(_reports(RunLayout(run.root))),
    )


def _reports(layout: RunLayout) -> Iterator[Path]:
    for each in (layout, *layout.parts()):
        yield from each.nsys_reports()


def _options(profile: Mapping[str, Any]) -> Iterator[str]:
    if not profile:
        return
    options = options_of(profile)
    if options.nsys:
        yield "--nsys"
    elif not options.profile:
        yield "--no-profile"
    if options.first_step is not None:
        last = options.first_step + (options.window_steps or 1) - 1
        yield f"--steps {options.first_step}" + (f"-{last}" if options.window_steps else "")
    elif options.window_steps is not None:
        yield f"--window {options.window_steps}"
    yield f"--overhead {options.overhead * 100:g}%"
    yield from (f"--{name}" for name in _DETAILS if getattr(options, name, False))
    if options.memory_snapshot:
        yield "--memory-snapshot"
    if options.nvtx:
        yield "--nvtx"
    if options.max_steps is not None:
        yield f"--max-steps {options.max_steps}"
    yield f"--stack-rate {stack_rate_of(profile)}"


def _events(rank: RankSnapshot, *kinds: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    columns = (rank.events[name] for name in ("kind", "step", "data"))
    for kind, step, data in zip(*columns, strict=True):
        if kind in kinds and isinstance(data, dict):
            yield str(kind), int(step), data


def _windows(run: RunSnapshot, rank: RankSnapshot) -> Iterator[Recorded]:
    for kind, step, data in _events(rank, "window", NSYS_RANGE):
        name = data.get("file")
        file = _of_rank(run, rank, name) if kind == "window" and isinstance(name, str) else None
        yield Recorded(
            first_step=step,
            steps=_whole(data.get("steps")),
            reason=str(data.get("reason") or ""),
            stall=_whole(data.get("stall")),
            file=file,
        )


def _snapshots(run: RunSnapshot, rank: RankSnapshot) -> Iterator[Snapshot]:
    """The newest of each file: one replaces another."""
    found = {}
    for _, step, data in _events(rank, MEMORY_SNAPSHOT):
        file = _of_rank(run, rank, str(data.get("file")))
        peak = data.get("peak")
        known = peak if isinstance(peak, int) else None
        found[file] = Snapshot(file, step, str(data.get("reason")), known)
    yield from (snapshot for file, snapshot in found.items() if file.is_file())


def _of_rank(run: RunSnapshot, rank: RankSnapshot, name: str) -> Path:
    """A recorder that joined the run has written into a directory of its own."""
    if rank.windows:
        return rank.windows[0].parent.parent / name
    return RunLayout(run.root).rank(rank.rank).root / name


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0
