"""Every name inside a runs directory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RUNS_DIRECTORY = Path(".perftui") / "runs"
"""Directory of runs, beside the script, unless ``--runs`` says otherwise."""

TRIALS = "trials"
TRIAL_FILE = "trial.json"
"""The trial of a run that was begun last, beside its runs."""

"""Directory of trial runs, apart from those that the user made."""

_HOSTS = "hosts"

PRIVATE_MODE = 0o700
"""A run holds the script's output and source lines: nobody but its owner may read it."""


class _Entry:
    """A path inside a layout's directory, by name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, layout: RunLayout | RankLayout, _: type) -> Path:
        return layout.root / self._name


@dataclass(frozen=True)
class RunLayout:
    """Paths inside the run directory at ``root``; nothing is created."""

    root: Path
    manifest = _Entry("run.json")
    """Command, places and outcome of the run; replaced atomically."""
    origin = _Entry("origin")
    """Proof that the user's own perftui prepared the run."""
    name = _Entry("name")
    """The user's name for the run, if one was given after its start."""
    output = _Entry("output.log")
    """The script's terminal output, raw bytes."""
    control = _Entry("control")
    """Requests from viewers, one JSON file each, removed by the recorder once served."""
    findings = _Entry("findings.json")
    """The diagnosis, written when the run has ended."""
    recorder_log = _Entry("recorder.log")
    """Failures of the recorder itself, in words."""
    heartbeat = _Entry("heartbeat.json")
    """Signs of life of its recorder."""
    nsys = _Entry("nsys")
    """Reports of Nsight Systems, one for each range of steps, and its messages."""
    sources = _Entry("sources")
    """The script as it was when the run began, and the modules beside it."""
    spared = _Entry("spared")
    """Copies of files that a trial was about to write to, and their journal."""
    worker_curve = _Entry("worker_curve.json")
    """The step with several numbers of loader workers, measured by a trial."""
    hosts = _Entry(_HOSTS)
    """Directories of recorders that joined this run."""

    @property
    def run(self) -> RunLayout:
        """The whole run, of which this may be a part."""
        above = self.root.parent.parent
        is_part = self.root.parent.name == _HOSTS and is_run_directory(above)
        return RunLayout(above) if is_part else self

    def sampling_lock(self, host: str) -> Path:
        """Lock of the recorder that samples the machine ``host``."""
        return self.root / f"sampling-{host}.lock"

    def nsys_reports(self) -> list[Path]:
        """Reports of Nsight Systems, in order of creation."""
        reports = [*self.nsys.glob("*.nsys-rep"), *self.nsys.glob("*.qdrep")]
        return sorted(reports, key=lambda path: (len(path.name), path.name))

    def telemetry(self, host: str) -> Path:
        """Samples of the machine ``host``."""
        return self.root / f"telemetry-{host}.jsonl"

    def telemetry_files(self) -> list[Path]:
        """Telemetry journals of all hosts, by name."""
        return sorted(self.root.glob("telemetry-*.jsonl"))

    def parts(self) -> list[RunLayout]:
        """Directories in ``hosts``, each with the layout of a run, by name."""
        try:
            paths = sorted(self.hosts.iterdir())
        except OSError:
            return []
        return [RunLayout(path) for path in paths if is_run_directory(path)]

    def rank(self, rank: int) -> RankLayout:
        """Paths of one rank."""
        return RankLayout(self.root / f"rank-{rank}")

    def ranks(self) -> list[int]:
        """The ranks that have written anything, ascending."""
        numbers = []
        for path in self.root.glob("rank-*"):
            suffix = path.name.removeprefix("rank-")
            # "rank-07" is not ours, and would be rank 7 a second time.
            if suffix.isdecimal() and suffix == str(int(suffix)) and path.is_dir():
                numbers.append(int(suffix))
        return sorted(numbers)


@dataclass(frozen=True)
class RankLayout:
    """Paths of one rank inside a run directory."""

    root: Path
    steps = _Entry("steps.jsonl")
    """One line per step."""
    events = _Entry("events.jsonl")
    """Everything else: loader facts, pauses, windows, warnings."""
    workers = _Entry("workers.jsonl")
    """Work of the workers of its data loaders, a line now and then for each."""
    stacks = _Entry("stacks.jsonl")
    """Stacks of its main thread, by py-spy."""
    worker_stacks = _Entry("worker_stacks.jsonl")
    """Stacks of the workers of its data loaders, by py-spy."""
    lock_stacks = _Entry("lock_stacks.jsonl")
    """Stacks of its other threads while they held Python's lock, by py-spy."""
    window_stacks = _Entry("window_stacks.jsonl")
    """Stacks of its main thread in profiled windows, by the agent."""
    windows = _Entry("windows")
    """Profiled windows as plain Kineto traces."""
    memory = _Entry("memory")
    """Snapshots of the GPU's memory as torch writes them, at most one for each cause."""

    def memory_files(self) -> list[Path]:
        """The snapshots in ``memory``, the newest last."""
        try:
            snapshots = [(path.stat().st_mtime_ns, path) for path in self.memory.glob("*.pickle")]
        except OSError:
            return []
        return [path for _, path in sorted(snapshots)]

    def window(self, first_step: int) -> Path:
        """The trace of the window that began at ``first_step``."""
        return self.windows / f"{first_step}.pt.trace.json"

    def window_files(self) -> list[Path]:
        """Traces of all windows so far, by their first step."""
        numbered = []
        for path in self.windows.glob("*.pt.trace.json*"):
            first_step = path.name.split(".", 1)[0]
            if first_step.isdecimal():
                numbered.append((int(first_step), path))
        return [path for _, path in sorted(numbered)]


def is_run_directory(path: Path) -> bool:
    """Whether ``path`` is a run directory (it holds a manifest)."""
    return RunLayout(path).manifest.is_file()


def without_time(run_id: str) -> str:
    """``train-7729``, the script and the end of a run's id."""
    return re.sub(r"^\d{8}-\d{6}-", "", run_id)


def trials_of(root: Path) -> Path:
    """Directory of the trials of the run at ``root``: beside its runs directory if that is the
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
