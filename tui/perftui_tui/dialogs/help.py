"""The help panel: this screen, the pane that has the focus, all keys, and every number."""

from __future__ import annotations

from dataclasses import dataclass

from textual.widget import Widget

from perftui.trace.text import printable
from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose
from perftui_tui.keys.all_keys import Key
from perftui_tui.keys.own_keys import hint, keys_of, keys_on, shown_key
from perftui_tui.look.rows import Row, row
from perftui_tui.reading.snapshot import Snapshot


@dataclass(frozen=True)
class Entry:
    """One number or pane: what it is, its unit, its source, and when it is good."""

    name: str
    what: str
    unit: str = ""
    source: str = ""
    good: str = ""

    @property
    def text(self) -> str:
        """The whole help as a paragraph."""
        more = (("Unit", self.unit), ("From", self.source), ("Good", self.good))
        return " ".join([self.what, *(f"{name}: {text}." for name, text in more if text)])


STEP = Entry(
    "Step time",
    "How long each training step took, from one optimizer step to the next. The chart ranges from "
    "zero to the slowest usual step. A step is slow if it takes at least 1.5 times the median.",
    "milliseconds, or seconds",
    "the monotonic clock inside the training, at every step",
    "EVEN: p95 is below 1.5 times p50",
)
PARTS = Entry(
    "Mean step",
    "The mean step split into parts that sum to it: data loader wait, loader start, forward, "
    "backward, optimizer, the profiler, and the rest. Above it is the share that perftui took of "
    "all steps, highlighted if it is over the limit; 'at most' marks a share that may be over it.",
    "milliseconds, and per cent of the step",
    "hooks at the phase boundaries, on the host's clock; in a trace the time intervals of kernels "
    "and operators, merged before they are summed",
    "most of it in forward and backward; in a trace, in compute",
)
GPU = Entry(
    "GPU",
    "The share of time in which at least one kernel ran, with its history; memory used by all "
    "processes, power against its limit, temperature and clock. A busy GPU is not necessarily "
    "well used: one small kernel at a time counts as busy. SM, tensor and DRAM show how much of "
    "the GPU was active, on cards that count it.",
    "per cent of the time",
    "NVML, the driver's own counter, twice a second",
    "70 % or more; below that it says LOW, and the GPU waits for something",
)
LOADER = Entry(
    "Data loader",
    "How long the training waits for its next batch, as a share of the step. The queue is the "
    "number of batches that are ready when one is requested.",
    "per cent of the step; batches",
    "hooks on the loader's iterator; busy, fetch and collate from the workers themselves",
    "below 10 %; from there it says HIGH",
)
CPU = Entry(
    "CPU",
    "How busy all cores of the machine are, and how many of them the training processes use.",
    "per cent of all cores; cores",
    "the kernel's counters in /proc, twice a second",
    "below 90 %; above that (FULL) more data loader workers cannot help",
)
CORES = Entry(
    "Cores",
    "A block for each core, as high as the core is busy; cores at 95 % or more are highlighted. "
    "One full core among idle ones is usually a thread that all others wait for.",
    "per cent of the core",
    "the kernel's counters (/proc/stat)",
)
WORKERS = Entry(
    "Workers",
    "A block for each data loader worker, as high as the share of time it spent making batches; "
    "the number of ready batches, and how long one takes in the dataset and in the collate "
    "function.",
    "per cent of the time; batches; milliseconds",
    "the workers themselves, over the last 5 seconds",
    "some workers mostly waiting: the loader keeps up",
)
MEMORY = Entry(
    "Memory",
    "Used memory of the machine, or of the container's limit; the training's memory (shared pages "
    "counted once if known); shared memory, through which data loader workers pass batches; the "
    "page cache, which is reclaimed when memory runs short; and swap.",
    "bytes",
    "the kernel's counters (/proc/meminfo, the cgroup)",
    "below 95 %; above that it says FULL, and the kernel will soon kill processes",
)
LAST_STEP = Entry(
    "Last profiled step",
    "The newest step of the newest profiled window, from left to right: the phases of the "
    "training, how busy each GPU was, and the longest gaps below their position.",
    "a column is the step divided by the width; gaps in milliseconds",
    "torch's profiler; time intervals of kernels and copies merged over all streams",
    "no gaps",
)
DISK = Entry(
    "Disk",
    "Read and write rates of all disks, over all programs, and the share of time in which they "
    "were busy.",
    "bytes a second; per cent of the time",
    "the kernel's counters in /proc, twice a second",
    "busy below 80 %; above that (FULL) requests queue up",
)
NETWORK = Entry(
    "Network",
    "Traffic of all interfaces but loopback, over all programs.",
    "bytes a second",
    "the kernel's counters in /proc, twice a second",
)
FINDINGS = Entry(
    "Findings",
    "The rules whose limits are exceeded, by their cost per step; a cause stands before what it "
    "slows, cautions last. Marks: !! critical, ! warning, · info, ok healthy. 38 %: of the step. "
    "≤1.61x: 1.61x faster at most if this were fixed, by estimate. ≥: the cost may be higher.",
    "milliseconds per step; times faster",
    "the steady steps, without warm-up and without profiled steps",
)
GAPS = Entry(
    "Gaps",
    "Intervals in which nothing ran on the GPU, first summed by what the host did meanwhile: the "
    "number of gaps mostly due to that cause, the longest gap, and the line of code.",
    "microseconds or milliseconds",
    "time intervals of kernels and copies in a profiled window, merged over all streams",
    "few and short; each is time that the GPU waits",
)
SELF = Entry(
    "Own and total",
    "Total is the time from the start to the end of a call; own excludes the operators it calls. "
    "CUDA runtime calls (cudaLaunchKernel) are part of own CPU; torch's key_averages() excludes "
    "them from Self CPU and lists them as rows.",
    "microseconds or milliseconds",
    "torch's profiler: operators on the host, kernels on the device",
)
OCCUPANCY = Entry(
    "est. occ",
    "The share of the warps a multiprocessor can hold that registers, shared memory and the "
    "launch configuration allow.",
    "per cent",
    "the profiler's estimate from the launch; occupancy without est. was measured by ncu",
    "enough to hide memory latency; more is not always faster",
)
ALLOCATED = Entry(
    "Allocated, reserved",
    "Allocated memory is held by tensors; reserved memory is what PyTorch has taken from the "
    "driver. The peak is the most that was allocated within a step.",
    "bytes (KiB, MiB and GiB are powers of 1024)",
    "torch.cuda's allocator, at the end of each step",
    "reserved below 90 % of the card, no retries: each retry empties the cache and waits",
)
CATEGORIES = Entry(
    "Memory by category",
    "What memory is held for, over the recording; each column shows its highest moment, so one has "
    "the peak. Activations are made by the forward pass and held for the backward pass, gradients "
    "outlive the backward pass, optimizer state the optimizer's step. Temporary memory is released "
    "in the phase that allocated it. The purpose of memory held before the recording, and of "
    "other, is unknown.",
    "bytes, and the share of what is held at the peak",
    "the stacks of a memory snapshot, or the allocations and operators of a trace",
    "whatever fits the card; activations shrink with the batch or with checkpointing",
)
RSS = Entry(
    "RSS",
    "Resident memory of the training processes; shared pages count once per process.",
    "bytes",
    "the kernel's counters in /proc, twice a second",
)
RANK = Entry(
    "Ranks",
    "The mean step of each rank and its parts. The straggler is the rank that is clearly slower "
    "than the median of the others, not counting the time they wait for it.",
    "milliseconds",
    "each rank's own steps, on its own clock",
    "all ranks within a few per cent",
)
SPEEDUP = Entry(
    "Faster, slower",
    "Step time before divided by step time after, over the steady steps of both runs. The "
    "interval allows for random variation.",
    "times",
    "the steps of both runs, profiled ones left out",
    "an interval that does not include 1",
)
PROOF = Entry(
    "Gain and proof of a fix",
    '"Up to" is the gain if the finding cost nothing any more. After pairs of runs: step time '
    "without the fix divided by step time with it, and in brackets the range that holds the true "
    "ratio with 95 % confidence. {diagnosis.try_fix} starts a trial.",
    "times faster",
    "separate pairs of runs; the very first run is not counted",
    "an interval that does not include 1",
)
OUTPUT = Entry(
    "Output",
    "What the script prints on its terminal, as it arrives; a progress bar is one line.",
    source="the run's output.log",
)

BY_SCREEN: dict[str, tuple[Entry, ...]] = {
    "overview": (
        *(PARTS, STEP, GPU, LOADER, WORKERS, CPU, CORES, MEMORY, DISK, NETWORK),
        *(LAST_STEP, FINDINGS, GAPS),
    ),
    "timeline": (GAPS, SELF),
    "ops": (SELF, OCCUPANCY),
    "diagnosis": (FINDINGS, PROOF, PARTS),
    "compare": (SPEEDUP, STEP, PARTS),
    "log": (OUTPUT,),
    "memory": (ALLOCATED, CATEGORIES, RSS),
    "ranks": (RANK, PARTS),
    "runs": (),
}
"""The numbers of each screen, in the order in which they stand there."""

PANES: dict[str, Entry] = {
    "ops.table": Entry(
        "The table",
        "One row for each group of calls. The sort column is marked. Narrow screens leave out "
        "some columns, but a saved table has all of them.",
    ),
    "ops.detail": Entry(
        "The page",
        "One operator or kernel: marked lines lead to its kernels, callers and places on the "
        "timeline.",
    ),
    "ranks.table": Entry(
        "The table", "One row for each rank; {ranks.table.open} shows one on all screens."
    ),
    "runs.table": Entry(
        "The table", "One row for each recorded run, the newest first; {runs.table.open} opens one."
    ),
    "app.bar": Entry("The bar", "Plays a saved run: the marker is the time that the screens show."),
    "timeline": Entry(
        "The tracks", "One track for each thread and stream. The selected track labels its gaps."
    ),
}
"""Parts that can have the focus, by their scope in the table of keys."""


TERMS = (
    ("warm-up", "the first steps, which load code and fill caches; they do not count"),
    ("steady step", "a step after the warm-up that is not profiled: means are over these"),
    ("window", "a few steps that torch's profiler records in full, now and then"),
    ("gap", "an interval in which nothing runs on the GPU"),
    ("launch-bound", "the CPU launches kernels more slowly than the GPU runs them"),
    ("queue wait", "the GPU idles with work queued: it waits for something, such as another rank"),
    ("correlation", "the number that ties a kernel to the call that launched it"),
    ("exposed", "copies or communication while nothing computes: overlap would hide them"),
    ("own time", "time of a call without the operators that it calls; profilers say self time"),
    ("not certain", "chance or a busy host may explain it: {compare.prove_fix} runs pairs"),
)
"""Words of the screens, each in one line."""


class HelpDialog(ChoiceDialog):
    """Help for one screen; ``pane`` is the scope of the part that has the focus, ``snapshot``
    what is on screen."""

    def __init__(
        self, screen: str, text: str, pane: str = "", snapshot: Snapshot | None = None
    ) -> None:
        again = shown_key("app.help")
        choices = (Choice(("escape", "question_mark", "?", "q", "f1", again), "close"),)
        entry = PANES.get(pane)
        focused = (*_entry(entry), ()) if entry is not None else ()
        body = (
            Prose(hint(text)),
            (),
            *focused,
            *help_rows(screen),
            *metric_rows(screen),
            *missing_rows(screen, snapshot),
            (),
            row(("Ten terms", "bold")),
            *(Prose(hint(f"{term}: {text}."), indent="  ") for term, text in TERMS),
            *rule_rows(screen),
        )
        super().__init__(f"Help: {screen}", body, choices)


def pane_of(focused: Widget | None) -> str:
    """The scope of the part that has the focus, by the names of its bindings; empty for none."""
    for node in focused.ancestors_with_self if focused is not None else ():
        for binding in node._bindings.key_to_bindings.values():
            scope = (binding[0].id or "").removesuffix(f".{binding[0].action}")
            if scope in PANES:
                return scope
    return ""


def help_rows(screen: str) -> list[Row]:
    """The keys of the screen, then those that work everywhere."""
    own = [key_row(key) for key in keys_on(screen)]
    return [
        *([row(("On this screen", "bold")), *own, ()] if own else []),
        row(("Everywhere", "bold")),
        *(key_row(key) for key in keys_of("app")),
        row(("  ctrl+p      ", "accent"), "Command palette: all commands and themes"),
        (),
        row(("While a saved run is played", "bold")),
        *(key_row(key) for key in keys_of("app.bar")),
    ]


def missing_rows(screen: str, snapshot: Snapshot | None) -> list[Row | Prose]:
    """What the Overview cannot show of the machine of the run, and why; nothing elsewhere."""
    from perftui.facts.gpu.cards import not_sampled

    missing = snapshot.ask(not_sampled) if snapshot is not None and screen == "overview" else None
    if not missing:
        return []
    told = (Prose(printable(f"{name}: {reason}.")) for name, reason in sorted(missing.items()))
    return [row(("Not sampled on this machine", "bold")), *told, ()]


def metric_rows(screen: str) -> list[Row | Prose]:
    """What each number of the screen means."""
    entries = BY_SCREEN[screen]
    title: list[Row | Prose] = [(), row(("What the numbers mean", "bold"))] if entries else []
    return [*title, *(line for entry in entries for line in _entry(entry))]


def rule_rows(screen: str) -> list[Row | Prose]:
    """What the rules look for, on the screen that shows their findings."""
    if screen != "diagnosis":
        return []
    from perftui.diagnosis.rules import BY_NAME

    title: list[Row | Prose] = [(), row(("What it looks for", "bold"))]
    for rule in BY_NAME.values():
        limits = rule.limits
        from_what = f" Warns from {100 * limits.warning:.0f} % {limits.of}." if limits else ""
        answer = f" What to do: {rule.answer}." if rule.answer else ""
        text = f"{rule.when}.{from_what}{answer}"
        title += [row((rule.id, "accent")), Prose(text, indent="  ")]
    return title


def _entry(entry: Entry) -> tuple[Row | Prose, ...]:
    return row((entry.name, "accent")), Prose(hint(entry.text), indent="  ")


def key_row(key: Key) -> Row:
    """A key and what it does."""
    return row((f"  {key.display:<12}", "accent"), key.help)
