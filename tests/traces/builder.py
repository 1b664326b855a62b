"""Traces told as a story: what the host does, what it launches, and how long a GPU is at it.

All times are integer nanoseconds (``us(5)``, ``ms(3)``). Each thread has a clock that the calls
move on; each stream runs what is launched on it in order. ``truth`` says what must be found.

    TraceBuilder().step().data_wait(ms(5)).forward().launch("gemm", ms(3)).sync().end()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perftui.analysis.analyse import analyse
from perftui.analysis.model import TraceAnalysis
from perftui.trace.model import Trace
from tests.traces.events import Event, cpu, gpu, memory, trace_of, write
from tests.traces.truth import Span, Truth

MAIN, AUTOGRAD = 1, 2
SINGLE, WORKERS = "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"
WAITING_OPERATORS = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero")


def us(count: float) -> int:
    """So many microseconds, in ns."""
    return round(count * 1_000)


def ms(count: float) -> int:
    """So many milliseconds, in ns."""
    return round(count * 1_000_000)


@dataclass
class TraceBuilder:
    """Builds the trace of one process; every call returns the builder."""

    spans: list[Span] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    """Top-level fields of the file."""

    def __post_init__(self) -> None:
        self._thread = MAIN
        self._clocks = {MAIN: 0}
        self._open: dict[int, list[Span]] = {}
        self._free: dict[tuple[int, int], int] = {}
        self._instants: list[Event] = []
        self._launched = self._steps = 0

    @property
    def has_open(self) -> bool:
        """Whether a range of the thread, other than a step, has not ended."""
        opened = self._open.get(self._thread)
        return bool(opened) and not opened[-1].name.startswith("ProfilerStep#")

    # Where and when

    @property
    def now(self) -> int:
        """The clock of the thread."""
        return self._clocks[self._thread]

    def at(self, time: int) -> TraceBuilder:
        """Set the clock of the thread, also backwards."""
        self._clocks[self._thread] = time
        return self

    def pause(self, lasting: int) -> TraceBuilder:
        """Let the thread do nothing that is recorded."""
        return self.at(self.now + lasting)

    def on(self, thread: int) -> TraceBuilder:
        """Go on on another thread, which begins when this one hands over."""
        handed = self.now
        self._thread = thread
        return self.at(max(handed, self._clocks.get(thread, handed)))

    def numbered(self, first: int) -> TraceBuilder:
        """Number the steps that follow from ``first`` on."""
        self._steps = first
        return self

    # What the host does; without ``lasting`` until ``close`` or ``end``

    def step(self, lasting: int | None = None) -> TraceBuilder:
        """A training step as torch's profiler marks it."""
        self._steps += 1
        return self.range(f"ProfilerStep#{self._steps - 1}", lasting, marks_main=True)

    def phase(self, name: str, lasting: int | None = None) -> TraceBuilder:
        """A phase as our agent marks it; it ends the one that is open."""
        opened = self._open.get(self._thread, [])
        if opened and opened[-1].name.startswith("perftui::"):
            self.close()
        cause = {"input_wait": "data loader wait", "profiler": "profiler"}.get(name, "")
        return self.range(
            f"perftui::{name}", lasting, phase=name, by_agent=True, marks_main=True, cause=cause
        )

    def forward(self, lasting: int | None = None) -> TraceBuilder:
        """The forward phase."""
        return self.phase("forward", lasting)

    def backward(self, lasting: int | None = None) -> TraceBuilder:
        """The backward phase."""
        return self.phase("backward", lasting)

    def optimizer(self, lasting: int | None = None) -> TraceBuilder:
        """The optimizer's phase."""
        return self.phase("optimizer", lasting)

    def data_wait(self, lasting: int, loader: str = SINGLE) -> TraceBuilder:
        """A fetch from the data loader, as torch marks it."""
        name = f"enumerate(DataLoader)#{loader}.__next__"
        return self.range(
            name, lasting, phase="input_wait", cause="data loader wait", marks_main=True
        )

    def optimizer_step(self, lasting: int | None = None) -> TraceBuilder:
        """The optimizer's step, as torch marks it."""
        return self.range("Optimizer.step#SGD.step", lasting, phase="optimizer", marks_main=True)

    def range(self, name: str, lasting: int | None = None, **known: Any) -> TraceBuilder:
        """Any range that is marked."""
        return self._host(name, lasting, "user_annotation", **known)

    def frame(self, name: str, lasting: int | None = None) -> TraceBuilder:
        """A Python function, in a trace with stacks."""
        phase = "forward" if name.startswith("nn.Module: ") else ""
        return self._host(name, lasting, "python_function", phase=phase)

    def op(self, name: str, lasting: int | None = None, **args: Any) -> TraceBuilder:
        """An operator; what comes until it is closed is inside it."""
        cause = "synchronisation" if name in WAITING_OPERATORS else "launch-bound"
        cause = "compilation" if name == "entire_frame_compile" else cause
        phase = "backward" if "Backward" in name else ""
        return self._host(name, lasting, "cpu_op", args, cause=cause, phase=phase)

    def call(
        self, name: str, lasting: int, cause: str = "launch-bound", **args: Any
    ) -> TraceBuilder:
        """A call of the CUDA runtime."""
        return self._host(name, lasting, "cuda_runtime", args, cause=cause)

    def malloc(self, lasting: int) -> TraceBuilder:
        """Memory from the driver."""
        return self.call("cudaMalloc", lasting, "allocation")

    def sync(self, lasting: int | None = None, device: int = 0) -> TraceBuilder:
        """Wait until the device has nothing left to do, or as long as is said."""
        free = max((at for place, at in self._free.items() if place[0] == device), default=0)
        lasting = max(free - self.now, us(1)) if lasting is None else lasting
        return self.call("cudaStreamSynchronize", lasting, "synchronisation")

    def item(self) -> TraceBuilder:
        """Copy a number to the host, as ``.item()`` does, and wait for it."""
        self.op("aten::item").op("aten::_local_scalar_dense")
        return self.copy("DtoH", us(2), 4, pinned=False).sync().close().close()

    def close(self) -> TraceBuilder:
        """End the range that was opened last on the thread."""
        last = self._open[self._thread].pop()
        last.end = max(last.start, self.now)
        return self

    def end(self) -> TraceBuilder:
        """End all that is open on the thread: the phase and the step."""
        while self._open.get(self._thread):
            self.close()
        return self

    # What the device does

    def launch(
        self,
        name: str,
        lasting: int,
        *,
        call: int = us(5),
        api: str = "cudaLaunchKernel",
        **more: Any,
    ) -> TraceBuilder:
        """A kernel and the call that launches it; ``more`` is that of ``kernel``."""
        self._launched += 1
        self.call(api, call, correlation=self._launched)
        return self.kernel(name, lasting, self.spans[-1], **more)

    def kernel(
        self,
        name: str,
        lasting: int,
        launch: Span | None = None,
        *,
        starts: int | None = None,
        stream: int = 7,
        device: int = 0,
        category: str = "kernel",
        **args: Any,
    ) -> TraceBuilder:
        """Work of a device whose launch, if there is none, is not in the trace.

        It starts behind its launch and what the stream has to do before, or when it is said to."""
        free = self._free.get((device, stream), 0)
        ready = self.now if launch is None else launch.end
        begin = max(ready, free) if starts is None else starts
        work = "communication" if "nccl" in name else "compute"
        if category in ("gpu_memcpy", "gpu_user_annotation"):
            work = "copy" if category == "gpu_memcpy" else ""
        if work:
            self._free[device, stream] = max(free, begin + lasting)
        place = {"device": device, "stream": stream, "work": work, "launch": launch}
        args["correlation"] = launch.args["correlation"] if launch else -1
        self.spans.append(Span(name, category, begin, begin + lasting, args=args, **place))
        return self

    def copy(
        self, way: str, lasting: int, size: int, *, pinned: bool = True, **more: Any
    ) -> TraceBuilder:
        """A copy: ``HtoD`` or ``DtoH``, of pinned memory or pageable."""
        host = "Pinned" if pinned else "Pageable"
        ends = {"HtoD": f"{host} -> Device", "DtoH": f"Device -> {host}"}[way]
        known = {"category": "gpu_memcpy", "api": "cudaMemcpyAsync", "bytes": size}
        return self.launch(f"Memcpy {way} ({ends})", lasting, **known, **more)

    def memset(self, lasting: int, size: int, **more: Any) -> TraceBuilder:
        """Set memory of the device."""
        known = {"category": "gpu_memset", "api": "cudaMemsetAsync", "bytes": size}
        return self.launch("Memset (Device)", lasting, **known, **more)

    def all_reduce(self, lasting: int, **more: Any) -> TraceBuilder:
        """A collective by NCCL, on a stream of its own."""
        self.op("c10d::allreduce_").op("record_param_comms")
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        return self.launch(name, lasting, **{"stream": 20, **more}).close().close()

    def memory(self, size: int, allocated: int) -> TraceBuilder:
        """What the caching allocator gives, or with a size below zero takes back."""
        self._instants.append(memory(self.now / 1000, size, allocated))
        return self

    def repeat(self, count: int, part: Callable[[TraceBuilder], object]) -> TraceBuilder:
        """The same part of the story, so many times."""
        for _ in range(count):
            part(self)
        return self

    # What comes of it
    def events(self) -> list[Event]:
        """As Kineto writes them, in the order in which the story tells them."""
        return [_event(span) for span in self.spans] + self._instants

    def write(self, path: Path, **fields: Any) -> Path:
        """A file, compressed where its name ends in ``.gz``."""
        return write(path, self.events(), **self.fields, **fields)

    def trace(self) -> Trace:
        """The trace as it is loaded."""
        return trace_of(*self.events(), **self.fields)

    def analysis(self) -> TraceAnalysis:
        """Its tables."""
        return analyse(self.trace())

    def truth(self) -> Truth:
        """What must be found in it."""
        return Truth(self.spans)

    def _host(
        self,
        name: str,
        lasting: int | None,
        category: str,
        args: dict[str, Any] | None = None,
        **known: Any,
    ) -> TraceBuilder:
        end = self.now + (lasting or 0)
        span = Span(name, category, self.now, end, self._thread, args=args or {}, **known)
        self.spans.append(span)
        if lasting is None:
            self._open.setdefault(self._thread, []).append(span)
        return self.at(span.end)


def _event(span: Span) -> Event:
    place = (span.name, span.start / 1000, (span.end - span.start) / 1000)
    if span.thread:
        return cpu(*place, span.category, span.thread, **span.args)
    known = {"stream": span.stream, "device": span.device}
    return gpu(*place, cat=span.category, **known, **span.args)


def meet(ranks: Sequence[TraceBuilder], lasting: int) -> None:
    """An all-reduce of all ranks: each enters when it comes to it, and all leave together."""
    kernels = [rank.all_reduce(0).spans[-1] for rank in ranks]
    for rank, kernel in zip(ranks, kernels, strict=True):
        kernel.end = max(each.start for each in kernels) + lasting
        rank._free[kernel.device, kernel.stream] = kernel.end


def write_ranks(folder: Path, ranks: Sequence[TraceBuilder], base_ns: int = 0) -> Path:
    """The trace of each rank as a file of ``folder``, which is given back."""
    for number, rank in enumerate(ranks):
        told = {"rank": number, "world_size": len(ranks), "backend": "nccl"}
        path = folder / f"rank{number}.pt.trace.json"
        rank.write(path, distributedInfo=told, baseTimeNanoseconds=base_ns)
    return folder
