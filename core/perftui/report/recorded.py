"""What a run was recorded with, and what there is of it to open; and the runs of a directory: as
JSON, and each in a line of a list."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from perftui import format as fmt
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, read_findings
from perftui.experiments.history import History
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import MemoryUse, gpu_memory
from perftui.facts.step.own_cost import OwnCost, cost_text, overhead_budget, recording_cost
from perftui.facts.step.steps import device_phases, step_breakdown, step_count
from perftui.recorder.launch import options_of
from perftui.report.output_text import SCHEMA, Schema, filled, printable, said
from perftui.run.columns import MEMORY_SNAPSHOT, NSYS_RANGE, stack_rate_of
from perftui.run.files import UnreadableError
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest
from perftui.run.reader import RankSnapshot, RunEntry, RunReader, RunSnapshot

REASONS = {
    "warm": "after the warm-up",
    "regular": "scheduled",
    "slow": "after a slow step",
    "asked": "requested",
    "chosen": "requested with --steps",
    "joint": "recorded on another rank",
    "lacking": "for what the diagnosis lacked",
}
"""Why a window was opened, by the agent's word for it."""

_DETAILS = ("shapes", "stacks", "memory", "modules", "syncs", "memory_snapshot", "nvtx")


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
class RecordedRun:
    """What was recorded of one rank of a run, and how."""

    options: tuple[str, ...]
    """Options of the recording, in the words of the command line."""
    windows: tuple[Recorded, ...]
    snapshots: tuple[Snapshot, ...]
    nsys: tuple[Path, ...]


def recording_of(run: RunSnapshot, number: int = 0) -> RecordedRun:
    """How ``run`` was recorded, and the windows and snapshots of rank ``number``."""
    rank, layout = run.rank(number), RunLayout(run.root)
    return RecordedRun(
        options=tuple(_options(run.manifest.profile)),
        windows=tuple(_windows(run, rank)) if rank else (),
        snapshots=tuple(_snapshots(run, rank)) if rank else (),
        nsys=tuple(file for one in (layout, *layout.parts()) for file in one.nsys_reports()),
    )


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
    given = (name for name in _DETAILS if getattr(options, name))
    yield from (f"--{name.replace('_', '-')}" for name in given)
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
    """The newest snapshot of each file: a new one replaces the last."""
    newest = {}
    for _, step, data in _events(rank, MEMORY_SNAPSHOT):
        file = _of_rank(run, rank, str(data.get("file")))
        peak = data.get("peak")
        size = peak if isinstance(peak, int) else None
        newest[file] = Snapshot(file, step, str(data.get("reason")), size)
    yield from (snapshot for file, snapshot in newest.items() if file.is_file())


def _of_rank(run: RunSnapshot, rank: RankSnapshot, name: str) -> Path:
    """A file of the rank; a recorder that joined the run has a directory of its own."""
    if rank.windows:
        return rank.windows[0].parent.parent / name
    return RunLayout(run.root).rank(rank.rank).root / name


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


MOST_WINDOWS = 5
"""Windows that are listed: the first, and the newest."""


def recording_lines(recording: RecordedRun, facts: Facts) -> Iterator[str]:
    """The options in force, the cost, each window with why it was opened, files to open."""
    if recording.options:
        yield f"options: {' '.join(recording.options)}"
    yield from _cost(recording_cost(facts), overhead_budget(facts))
    shown = windows = recording.windows
    if len(windows) > MOST_WINDOWS:
        shown = (windows[0], *windows[1 - MOST_WINDOWS :])
    for number, window in enumerate(shown):
        if number == 1 and len(shown) < len(windows):
            yield f"... {fmt.several(len(windows) - len(shown), 'window')} in between"
        yield _window(window)
    for snapshot in recording.snapshots:
        yield _snapshot(snapshot)
    for report in recording.nsys:
        yield _open_line("Nsight Systems report", report)
    if "--nsys" in recording.options and not recording.nsys:
        yield "no report of Nsight Systems: nsys/nsys.log in the run's directory says why"


def gpu_tables(facts: Facts) -> Iterator[tuple[str, tuple[str, str], list[tuple[str, str]]]]:
    """Title, column heads and rows of each known table about the GPU: phases, and torch's
    allocator."""
    phases, memory = device_phases(facts), gpu_memory(facts)
    if phases is not None:
        title = (
            f"Phases on the GPU, timed by CUDA events (mean of {fmt.several(phases.count, 'step')})"
        )
        yield title, ("phase", "time"), [(name, f"{ns / 1e6:.2f} ms") for name, ns in phases.parts]
    if memory is not None:
        yield "GPU memory, by torch's allocator", ("memory", "size"), [*_memory_rows(memory)]


def _memory_rows(memory: MemoryUse) -> Iterator[tuple[str, str]]:
    yield "allocated at the last step", fmt.size(memory.allocated[-1])
    yield "peak so far", fmt.size(memory.peak_allocated)
    yield "reserved", fmt.size(memory.reserved[-1])
    if memory.retries:
        yield "allocation retries", str(memory.retries)
    if memory.failures:
        yield "allocations that failed", str(memory.failures)


def _cost(cost: OwnCost | None, limit: float | None) -> Iterator[str]:
    if cost is None:
        yield "what perftui took is not known"
        return
    parts = (("hooks", cost.hooks), ("windows", cost.stalls), ("slower steps", cost.slowed))
    listed = ", ".join(f"{name} {fmt.duration(value)}" for name, value in parts)
    text = cost_text(cost.total / cost.whole, limit)
    yield f"{text}, of {fmt.duration(cost.whole)} of steps ({listed})"
    if not cost.slowed and cost.slowed_at_most:
        most = fmt.duration(cost.slowed_at_most)
        yield f"  how much slower profiled steps were is within their variation: at most {most}"


def _window(window: Recorded) -> str:
    last = window.first_step + window.steps - 1
    steps = f"step {last}" if window.steps <= 1 else f"steps {window.first_step}-{last}"
    by = "window" if window.file is not None else "nsys"
    reason = REASONS.get(window.reason, window.reason or "reason not known")
    return printable(f"{by}: {steps}, {reason}; stalled the training {fmt.duration(window.stall)}")


def _snapshot(snapshot: Snapshot) -> str:
    size = "" if snapshot.peak is None else f" of {fmt.size(snapshot.peak)}"
    what = f"at the peak{size}" if snapshot.reason == "peak" else "as memory ran out"
    return _open_line(f"GPU memory {what}, step {snapshot.step}", snapshot.file)


def _open_line(what: str, path: Path) -> str:
    return printable(f"{what}: perftui {path}")


class RunOutput(TypedDict):
    """A recorded run; null is what a damaged one does not tell."""

    run: Annotated[str, said("Its identifier.")]
    path: str
    state: Annotated[str | None, said("running, exited 0, stopped, ...")]
    started_ns: Annotated[int | None, said("Nanoseconds since the epoch.")]
    ended_ns: int | None
    command: list[str] | None
    name: Annotated[str | None, said("The name that was given to it.")]
    host: str | None
    step_ns: Annotated[int | None, said("Mean steady step; null if not known or not read.")]
    slower: Annotated[
        float | None,
        said(
            "By which share the step is longer than in earlier runs of its command; null if it is "
            "not, or not certainly."
        ),
    ]
    problem: Annotated[str | None, said("Why it cannot be read.")]


class RunsOutput(TypedDict):
    """`perftui runs`: the recorded runs of a directory."""

    schema: Schema
    path: Annotated[str, said("The directory of the runs.")]
    runs: Annotated[list[RunOutput], said("Newest first.")]


def runs_object(
    directory: Path, entries: Iterable[RunEntry], judged: Mapping[Path, History]
) -> RunsOutput:
    """The runs ``entries`` of ``directory``, in their order; those ``judged`` with their step."""
    rows = [_run(entry, judged.get(entry.root)) for entry in entries]
    return {"schema": SCHEMA, "path": str(directory), "runs": rows}


def _run(entry: RunEntry, judged: History | None) -> RunOutput:
    of_manifest = ("state", "started_ns", "ended_ns", "command", "name", "host")
    return filled(
        RunOutput,
        entry.manifest,
        entry,
        run=entry.run_id,
        path=str(entry.root),
        step_ns=judged.now.mean_ns if judged else None,
        slower=judged.slower if judged else None,
        **({} if entry.manifest else dict.fromkeys(of_manifest)),
    )


@dataclass(frozen=True)
class RunSummary:
    """What is known of a run without opening it."""

    train_steps: int
    """Steps of the first rank, warm-up included: of training, where anything is trained."""
    mean: int | None
    """Mean steady step, ns; None without steady steps."""
    verdict: str
    """The rule that names the costliest cause, or ``healthy``; empty where nothing could be judged,
    ``still judging`` until what is concluded of a run that has just ended is there."""
    share: float
    """Share of a step that it costs, 0 to 1."""


def concluded(root: Path) -> Diagnosis | None:
    """What was concluded at the end of the run at ``root``; None where nothing can be read."""
    with suppress(UnreadableError, OSError):
        return read_findings(RunLayout(root).findings)
    return None


def is_concluding(manifest: Manifest) -> bool:
    """Whether the run has ended within the last minute: what is concluded of it takes some time."""
    return manifest.status.is_over and time.time_ns() - (manifest.ended_ns or 0) < 60e9


def summarise(root: Path) -> RunSummary:
    """The summary of the run at ``root``. What was concluded at its end is taken where it is there:
    it rests on the profiled windows, too.

    Raises:
        ManifestError: there is no readable run.
        OSError: it cannot be read.
    """
    run = RunReader(root).poll()
    facts = Facts(run)
    told = concluded(root) if run.manifest.status.is_over else None
    waits = told is None and is_concluding(run.manifest)
    top, steady = None if waits else (told or diagnosis(facts)).top, step_breakdown(facts)
    return RunSummary(
        step_count(facts),
        steady.mean if steady else None,
        "still judging" if waits else top.rule if top else "",
        top.share if top else 0.0,
    )
