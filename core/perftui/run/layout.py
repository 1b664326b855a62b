"""Every name inside a runs directory, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RUNS_DIRECTORY = Path(".perftui") / "runs"
"""Where runs are kept, beside the script, unless ``--runs`` says otherwise."""

TRIALS = "trials"
"""Where the runs of trials are kept: apart from those that the user made."""

_HOSTS = "hosts"

PRIVATE_MODE = 0o700
"""A run holds the script's output and source lines: nobody but its owner reads it."""


class _Entry:
    """A path inside the directory of a layout, by its name there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, layout: RunLayout | RankLayout, _: type) -> Path:
        return layout.root / self._name


@dataclass(frozen=True)
class RunLayout:
    """Paths inside the run directory at ``root``; nothing is created by asking for one."""

    root: Path
    manifest = _Entry("run.json")
    """What ran, where, with which outcome; replaced atomically."""
    origin = _Entry("origin")
    """Proof that the user's own perftui prepared the run."""
    name = _Entry("name")
    """What the user calls the run, where a name was given after its start."""
    output = _Entry("output.log")
    """The script's terminal output, raw bytes."""
    control = _Entry("control")
    """Requests from viewers, one JSON file each, removed by the recorder once served."""
    findings = _Entry("findings.json")
    """The diagnosis, written when the run has ended."""
    recorder_log = _Entry("recorder.log")
    """What the recorder itself could not do, in words."""
    heartbeat = _Entry("heartbeat.json")
    """Signs of life of its recorder."""
    nsys = _Entry("nsys")
    """Reports of Nsight Systems, one for each range of steps, and what nsys said."""
    spared = _Entry("spared")
    """Copies of files that a trial was about to write to, and their journal."""
    worker_curve = _Entry("worker_curve.json")
    """The step with several numbers of loader workers, measured by a trial."""
    hosts = _Entry(_HOSTS)
    """Where recorders that joined this run have directories of their own."""

    @property
    def run(self) -> RunLayout:
        """The whole run, of which this may be a part."""
        above = self.root.parent.parent
        is_part = self.root.parent.name == _HOSTS and is_run_directory(above)
        return RunLayout(above) if is_part else self

    def sampling_lock(self, host: str) -> Path:
        """Held by the recorder that samples the machine ``host``."""
        return self.root / f"sampling-{host}.lock"

    def nsys_reports(self) -> list[Path]:
        """Reports of Nsight Systems, in the order they were made."""
        found = [*self.nsys.glob("*.nsys-rep"), *self.nsys.glob("*.qdrep")]
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def telemetry(self, host: str) -> Path:
        """Samples of the machine ``host``."""
        return self.root / f"telemetry-{host}.jsonl"

    def telemetry_files(self) -> list[Path]:
        """The telemetry journals of every host that has written one, by name."""
        return sorted(self.root.glob("telemetry-*.jsonl"))

    def parts(self) -> list[RunLayout]:
        """The directories in ``hosts``, each laid out as that of a run, by name."""
        try:
            found = sorted(self.hosts.iterdir())
        except OSError:
            return []
        return [RunLayout(path) for path in found if is_run_directory(path)]

    def rank(self, rank: int) -> RankLayout:
        """Paths of one rank."""
        return RankLayout(self.root / f"rank-{rank}")

    def ranks(self) -> list[int]:
        """The ranks that have written anything, ascending."""
        found = []
        for path in self.root.glob("rank-*"):
            suffix = path.name.removeprefix("rank-")
            # "rank-07" is not ours, and would be rank 7 a second time.
            if suffix.isdecimal() and suffix == str(int(suffix)) and path.is_dir():
                found.append(int(suffix))
        return sorted(found)


@dataclass(frozen=True)
class RankLayout:
    """Paths of one rank inside a run directory."""

    root: Path
    steps = _Entry("steps.jsonl")
    """One line a step."""
    events = _Entry("events.jsonl")
    """Everything that is not a step: loader facts, pauses, windows, warnings."""
    workers = _Entry("workers.jsonl")
    """What the workers of its data loaders did, a line now and then for each."""
    stacks = _Entry("stacks.jsonl")
    """Where its main thread was, as py-spy saw it."""
    worker_stacks = _Entry("worker_stacks.jsonl")
    """Where the workers of its data loaders were, as py-spy saw them."""
    lock_stacks = _Entry("lock_stacks.jsonl")
    """Where its other threads were that held Python's lock, as py-spy saw them."""
    window_stacks = _Entry("window_stacks.jsonl")
    """Where its main thread was in profiled windows, as the agent saw it there."""
    windows = _Entry("windows")
    """Profiled windows as plain Kineto traces."""
    memory = _Entry("memory")
    """Snapshots of the GPU's memory as torch writes them, at most one for each cause."""

    def memory_files(self) -> list[Path]:
        """The snapshots in ``memory``, the newest last."""
        try:
            found = [(path.stat().st_mtime_ns, path) for path in self.memory.glob("*.pickle")]
        except OSError:
            return []
        return [path for _, path in sorted(found)]

    def window(self, first_step: int) -> Path:
        """The trace of the window that began at ``first_step``."""
        return self.windows / f"{first_step}.pt.trace.json"

    def window_files(self) -> list[Path]:
        """Traces of all windows so far, by the step they begin at."""
        numbered = []
        for path in self.windows.glob("*.pt.trace.json*"):
            first_step = path.name.split(".", 1)[0]
            if first_step.isdecimal():
                numbered.append((int(first_step), path))
        return [path for _, path in sorted(numbered)]


def is_run_directory(path: Path) -> bool:
    """Whether ``path`` is a run directory (it holds a manifest)."""
    return RunLayout(path).manifest.is_file()


def trials_of(root: Path) -> Path:
    """Where the trials of the run at ``root`` are kept: beside its runs directory where that is the
    usual one, else in the run."""
    is_usual = root.parent.parts[-len(RUNS_DIRECTORY.parts) :] == RUNS_DIRECTORY.parts
    return (root.parent.parent if is_usual else root) / TRIALS / root.name


def create_run_directory(runs: Path, run_id: str) -> RunLayout:
    """Make the private directory of a new run under ``runs``.

    The parent ``.perftui`` gets a ``.gitignore`` so that runs are never committed by accident.

    Raises:
        FileExistsError: a run of that id is already there.
        OSError: the directory cannot be made.
    """
    runs.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
    if runs.parent.name == ".perftui":
        ignore = runs.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
    layout = RunLayout(runs / run_id)
    layout.root.mkdir(PRIVATE_MODE)
    layout.control.mkdir(PRIVATE_MODE)
    return layout
