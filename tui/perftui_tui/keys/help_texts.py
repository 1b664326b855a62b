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
        parts = [self.what]
        if self.unit:
            parts.append(f"Unit: {self.unit}.")
        if self.source:
            parts.append(f"From: {self.source}.")
        if self.good:
            parts.append(f"Good: {self.good}.")
        return " ".join(parts)


STEP = Entry(
    "Step time",
    "How long each training step took, from one optimizer step to the next; the chart reaches from "
    "zero to the slowest usual step. A step is slow from 1.5 times the median on.",
    "milliseconds, or seconds",
    "the monotonic clock inside the training, at every step",
    "EVEN: p95 is below 1.5 times p50",
)
PARTS = Entry(
    "Mean step",
    "The mean step split into parts that sum to it: waiting for data, the start of the loader, "
    "forward, backward, optimizer, the profiler, and what is left.",
    "milliseconds, and per cent of the step",
    "hooks at the borders of the phases, on the clock of the host; of a trace the spans of kernels "
    "and operators, united before they are summed",
    "most of it in forward and backward; of a trace in compute",
)
GPU = Entry(
    "GPU",
    "The share of the time in which at least one kernel ran, with its history; memory used by all "
    "processes, power of its limit, temperature, and clock. A busy GPU need not be a well used "
    "one: one small kernel at a time counts as busy; SM, tensor and DRAM say how much of it "
    "worked, on cards that count that.",
    "per cent of the time",
    "NVML, the driver's own counter, once a second",
    "70 % or more; below it the word is LOW, and the GPU waits for something",
)
LOADER = Entry(
    "Data loader",
    "How long the training waits for its next batch, as a share of the step. The queue is the "
    "number of batches that lie ready when one is asked for.",
    "per cent of the step; batches",
    "hooks at the loader's iterator; busy, fetch and collate from the workers themselves",
    "below 10 %; from there on the word is HIGH",
)
CPU = Entry(
    "CPU",
    "How busy all cores of the machine are, and how many of them the training's processes take.",
    "per cent of all cores; cores",
    "the kernel's counters (/proc), by psutil, once a second",
    "below 90 %; above it (FULL) more loader workers cannot help",
)
CORES = Entry(
    "Cores",
    "A block for each core, as high as it is busy; those at 95 % and more are highlighted. One "
    "full core among idle ones is a thread that all others wait for.",
    "per cent of the core",
    "the kernel's counters (/proc/stat)",
)
WORKERS = Entry(
    "Workers",
    "A block for each data-loader worker, as high as the share of its time in which it made "
    "batches; the batches that lie ready, and how long one takes in the dataset and in the collate "
    "function.",
    "per cent of the time; batches; milliseconds",
    "the workers themselves, over the last 5 seconds",
    "some mostly waiting: the loader keeps up",
)
MEMORY = Entry(
    "Memory",
    "What is used of the machine's memory, or of the container's limit; what the training holds "
    "(shared pages once where that is known), shared memory, which loader workers pass batches "
    "through, the page cache, which is given back when memory runs short, and swap.",
    "bytes",
    "the kernel's counters (/proc/meminfo, the cgroup)",
    "below 95 %; above it the word is FULL, and the kernel ends processes before long",
)
LAST_STEP = Entry(
    "Last profiled step",
    "The newest step of the newest window from left to right: the phases of the training, how busy "
    "each GPU was meanwhile, and the longest gaps below the places where they are.",
    "a column is the step divided by the width; gaps in milliseconds",
    "torch's profiler, the spans of kernels and copies united over the streams",
    "no gaps",
)
DISK = Entry(
    "Disk",
    "What all disks of the machine read and write, by every program, and the share of the time "
    "in which they had work.",
    "bytes a second; per cent of the time",
    "the kernel's counters, by psutil, once a second",
    "busy below 80 %; above it (FULL) requests wait for each other",
)
NETWORK = Entry(
    "Network",
    "What all interfaces but loopback carry, of every program.",
    "bytes a second",
    "the kernel's counters, by psutil, once a second",
)
FINDINGS = Entry(
    "Findings",
    "The rules whose limits are crossed, ordered by what they cost in each step. The speed-up "
    "is what the step would gain without that cost: an estimate, not a promise.",
    "milliseconds of a step; times faster",
    "the steady steps, without warm-up and without profiled steps",
)
GAPS = Entry(
    "Gaps",
    "Intervals in which no kernel ran on the device, with what the host did meanwhile. First "
    "their sum by cause, with the gaps of which it is the largest part, the longest, and the line.",
    "microseconds or milliseconds",
    "the spans of kernels and copies of a profiled window, united over the streams",
    "short ones; each is time that the GPU waits",
)
SELF = Entry(
    "Own and total",
    "Total is the time between the beginning and the end of a call; own leaves out the operators "
    "it calls. Own times may be summed, totals of callers hold those of the called. Calls of the "
    "runtime (cudaLaunchKernel) are part of own CPU; torch's key_averages() leaves them out of "
    "Self CPU and lists them as rows.",
    "microseconds or milliseconds",
    "torch's profiler: operators on the host, kernels on the device",
)
OCCUPANCY = Entry(
    "est. occ",
    "The share of the warps that a processor of the GPU could hold, as far as registers, shared "
    "memory and the launch allow.",
    "per cent",
    "the profiler's estimate from the launch; occupancy without est. is what ncu measured",
    "as much as hides the latency of memory; more is not always faster",
)
ALLOCATED = Entry(
    "Allocated, reserved",
    "Allocated is what tensors hold, reserved what PyTorch has taken from the driver for them. The "
    "peak is the most that was allocated within a step.",
    "bytes (KiB, MiB and GiB are powers of 1024)",
    "torch.cuda's allocator, at the end of each step",
    "reserved below 90 % of the card, without retries: each retry empties the cache and waits",
)
CATEGORIES = Entry(
    "Memory by category",
    "What memory is held for over the recording; each column shows its highest moment, so the peak "
    "is in one. Activations are made by the forward pass and held for the backward pass, gradients "
    "outlive the backward pass, optimizer state the optimizer's step. Temporary is released in the "
    "phase that took it. Of what was held before the recording, and of other, nothing tells what "
    "it is for.",
    "bytes, and the share of what is held at the peak",
    "the stacks of a memory snapshot, or the allocations and operators of a trace",
    "whatever fits the card; activations shrink with the batch or with checkpointing",
)
RSS = Entry(
    "RSS",
    "Memory of the training's processes that lies in RAM; what they share is counted in each.",
    "bytes",
    "the kernel's counters, by psutil, once a second",
)
RANK = Entry(
    "Ranks",
    "The mean step of each rank and its parts. The straggler is the rank that is clearly slower "
    "than the median of the others before they wait for it.",
    "milliseconds",
    "each rank's own steps, on its own clock",
    "all ranks within a few per cent",
)
SPEEDUP = Entry(
    "Faster, slower",
    "The time of a step before over that after, of steady steps of both runs. The interval holds "
    "what chance alone would do.",
    "times",
    "the steps of both runs, profiled ones left out",
    "an interval that does not reach 1",
)
PROOF = Entry(
    "Gain and proof of a fix",
    "Up to about: what the step would gain were all of the finding gone. After a trial by pairs of "
    "runs: the step without the fix over that with it, and the interval that holds what chance "
    "alone would do. It is looked at after 6, 9 and 14 pairs; {diagnosis.try_fix} starts one.",
    "times faster",
    "pairs of runs of their own; the first run of all is not counted",
    "an interval that does not reach 1",
)
OUTPUT = Entry(
    "Output",
    "What the script prints on its terminal, as bytes came; a progress bar is one line.",
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
        "One row for each group of calls. The column that is sorted by is marked; on a narrow "
        "screen some columns are left out, but never from a saved table.",
    ),
    "ops.detail": Entry(
        "The page",
        "One operator or kernel: the lines with a mark lead to kernels, callers and places.",
    ),
    "ranks.table": Entry(
        "The table", "One row for each rank; {ranks.table.open} shows one on all screens."
    ),
    "runs.table": Entry(
        "The table", "One row for each recorded run, the newest first; {runs.table.open} opens one."
    ),
    "app.bar": Entry(
        "The bar", "Plays a saved run: the point is the time at which the screens show it."
    ),
    "timeline": Entry(
        "The tracks",
        "One track for each thread and stream. The selected track shows its gaps in words.",
    ),
}
"""Parts that can have the focus, by their scope in the table of keys."""
