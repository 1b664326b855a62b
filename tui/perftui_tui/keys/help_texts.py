"""What each pane and each number means: in one table, for the help of every screen."""

from __future__ import annotations

from dataclasses import dataclass


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
    "all steps, highlighted if it is over the limit; 'at most' comes before a share that may be "
    "over it, as steps differ from each other anyway.",
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
    "The rules whose limits are exceeded, ordered by their cost per step. "
    "Marks: !! critical, ! warning, · info, ok healthy. ≤1.61x says that the training would be up "
    "to 1.61x faster without the finding: an estimate, not a promise. ≥: the cost may be higher.",
    "milliseconds per step; times faster",
    "the steady steps, without warm-up and without profiled steps",
)
GAPS = Entry(
    "Gaps",
    "Intervals in which nothing ran on the GPU, with what the host did meanwhile. First their sum "
    "by cause, with the number of gaps that are mostly due to that cause, the longest gap, and "
    "the line of code.",
    "microseconds or milliseconds",
    "time intervals of kernels and copies in a profiled window, merged over all streams",
    "few and short; each is time that the GPU waits",
)
SELF = Entry(
    "Own and total",
    "Total is the time from the start to the end of a call; own excludes the operators it calls. "
    "Own times can be summed; the total of a caller includes its callees. CUDA runtime calls "
    "(cudaLaunchKernel) are part of own CPU; torch's key_averages() excludes them from Self CPU "
    "and lists them as rows.",
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
    '"Up to" is what the step would gain without the finding. After a trial by '
    "pairs of runs: step time without the fix divided by step time with it, and in brackets the "
    "range that holds the true ratio with 95 % confidence. The result is checked after 6, 9 and 14 "
    "pairs; {diagnosis.try_fix} starts a trial.",
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
