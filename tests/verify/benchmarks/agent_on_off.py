"""Trains in one process with the agent's hooks in place and without, in turns.

Two processes never share their caches and their luck, and on a busy machine their times differ by a
tenth; turns in one process differ by a hundredth. Started by ``bench_agent_step.py`` with a name of
``SHAPES`` and the seconds to take; prints as JSON, of every pair of turns, the CPU ns of a step
without hooks and with them, and how long a step is. ``gpu-tiny`` trains on a GPU that waits for the
CPU, ``gpu-realistic`` on one that is behind, and is told in ns of the wall clock."""

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from played_gpu import play
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from perftui.agent.startup.arm import arm
from perftui.agent.windows.ranges import Marks, ModuleRanges, Ranges
from perftui.agent.windows.torch_window import Window, WindowObservers
from perftui.wire.control_page import create_control_page
from perftui.wire.spool import AgentOptions, Spool

SHAPES = {
    "tiny": (11, 20, 4, 0, True),
    "tiny-without-loader": (11, 20, 4, 0, False),
    "realistic": (2, 8, 4, 12, True),
    "realistic-played-gpu": (2, 40, 8, 12, True),
}
"""Blocks, steps in a turn, steps before them that are not counted, in which caches and the agent's
idea of the loop settle, ms of each sweep, and whether a data loader makes the batches. Tiny steps
take 1 ms: some thousand operators in 33 modules, the worst case. Realistic ones take 50 ms, most of
it for four sweeps through memory: one each before the batch, in the forward pass, the backward pass
and the optimizer. They do to the caches what large operators do, and their own time, which scatters
by more than all hooks take, is left out of the comparison. With a GPU that is played there are more
of them in a turn: it is looked at in some only."""

GPU_SHAPES = {"gpu-tiny": (11, 60, 20, 8), "gpu-realistic": (8, 12, 4, 4096)}
"""Blocks, steps in a turn, steps before them, and the width of a layer: steps of tiny kernels, of
which the GPU waits for each, and steps of some 40 ms that the GPU is behind with."""

SWEPT = 16 << 20
"""Floats, 64 MB: more than a core's share of any cache."""

FIRST_PAIRS = 2
"""Not printed: compilers, allocators and the agent start up in them."""

HOLDERS: tuple[Any, ...] = (
    nn.Module,
    torch.autograd,
    torch.amp.GradScaler,
    torch.utils.data.dataloader._BaseDataLoaderIter,
    DataLoader,
    torch.utils.data._utils.fetch._MapDatasetFetcher,
    torch.utils.data._utils.fetch._IterableDatasetFetcher,
)
"""What the agent may hang its hooks into."""


class Hooks:
    """The agent's hooks, to be taken out and put back."""

    def __init__(self) -> None:
        before = [dict(vars(holder)) for holder in HOLDERS]
        os.environ["PERFTUI_OPTIONS"] = json.dumps({"profile": False})
        arm(torch, tempfile.mkdtemp())
        self._swapped = [
            (holder, name, was.get(name), value)
            for holder, was in zip(HOLDERS, before, strict=True)
            for name, value in dict(vars(holder)).items()
            if callable(value) and value is not was.get(name)
        ]
        # torch.optim hides this submodule behind its own names.
        module: Any = sys.modules[torch.optim.Optimizer.__module__]
        listening = (module._global_optimizer_pre_hooks, module._global_optimizer_post_hooks)
        self._listening = [(hooks, dict(hooks)) for hooks in listening]

    def put(self, on: bool) -> None:
        for holder, name, original, ours in self._swapped:
            setattr(holder, name, ours if on else original)
        for hooks, ours in self._listening:
            hooks.clear()
            hooks.update(ours if on else {})


class Sweeps:
    """Sweeps through memory, and the CPU time that they took."""

    def __init__(self, milliseconds: float) -> None:
        self.spent = 0
        self._memory = torch.zeros(SWEPT if milliseconds else 0)
        self._times = milliseconds and max(round(milliseconds / self._once()), 1)
        self.spent = 0

    def _once(self) -> float:
        self._sweep(1)
        self.spent = 0
        self._sweep(1)
        return self.spent / 1e6

    def sweep(self, *_: object) -> None:
        """Push everything out of the caches."""
        if self._times:
            self._sweep(int(self._times))

    def _sweep(self, times: int) -> None:
        start = time.thread_time_ns()
        for _ in range(times):
            self._memory.add_(1)
        self.spent += time.thread_time_ns() - start


class Swept(nn.Module):
    """Sweeps in the forward pass and in the backward pass."""

    def __init__(self, sweeps: Sweeps) -> None:
        super().__init__()
        self._sweeps = sweeps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._sweeps.sweep()
        x.register_hook(self._sweeps.sweep)
        return x


class SweptAdam(torch.optim.Adam):
    """Sweeps before it writes the weights."""

    def __init__(self, parameters: Any, sweeps: Sweeps) -> None:
        super().__init__(parameters, foreach=False)
        self._sweeps = sweeps

    def _init_group(self, *args: Any) -> Any:
        self._sweeps.sweep()
        return super()._init_group(*args)


def make_turn(
    blocks: int, steps: int, warm: int, milliseconds: float, has_loader: bool
) -> Callable[[], tuple[float, float]]:
    """A function that trains for one turn: CPU ns of a step without its sweeps, and with them."""
    sweeps = Sweeps(milliseconds)
    layers: list[nn.Module] = [nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(blocks)]
    if milliseconds:
        layers.insert(1, Swept(sweeps))
    model = nn.Sequential(*layers)
    optimizer = SweptAdam(model.parameters(), sweeps)
    data = TensorDataset(torch.randn((warm + steps) * 4, 8))
    batches = [data[first : first + 4] for first in range(0, len(data), 4)]

    def turn() -> tuple[float, float]:
        start = 0
        for index, (x,) in enumerate(DataLoader(data, 4) if has_loader else batches):
            if index == warm:
                start, sweeps.spent = time.thread_time_ns(), 0
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            sweeps.sweep()
        whole = time.thread_time_ns() - start
        return (whole - sweeps.spent) / steps, whole / steps

    return turn


class Widened(nn.Module):
    """Makes a large batch of a small one: what is copied to the GPU is no part of the question."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.repeat(self._width // 8, self._width // 8)


def make_gpu_turn(
    blocks: int, steps: int, warm: int, width: int
) -> Callable[[], tuple[float, float]]:
    """A function that trains for one turn on the GPU: ns of a step, twice."""
    layers = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(blocks)]
    model = nn.Sequential(Widened(width), *layers).cuda()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    data = TensorDataset(torch.randn((warm + steps) * 4, 8))
    clock = time.thread_time_ns if width == 8 else time.perf_counter_ns

    def turn() -> tuple[float, float]:
        start = 0
        for index, (x,) in enumerate(DataLoader(data, 4)):
            if index == warm:
                torch.cuda.synchronize()
                start = clock()
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()
        torch.cuda.synchronize()
        whole = (clock() - start) / steps
        return whole, whole

    return turn


DETAILS = ("nothing", "shapes", "stacks", "modules", "syncs", "frames", "memory")
"""What windows record besides operators; stacks are sampled, frames what ``--stacks`` records."""


def windows(seconds: float) -> dict[str, list[tuple[int, int]]]:
    """By each of ``DETAILS``, CPU ns of two steps in a window, and of its begin and end."""
    spool = Path(tempfile.mkdtemp())
    create_control_page(Spool(spool).control)
    layers = [nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.LayerNorm(256)) for _ in range(24)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    x = torch.randn(256, 256)
    observers = WindowObservers(torch, spool, print)
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in DETAILS}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for name in DETAILS:
            own = "stacks" if name == "frames" else "" if name in ("nothing", "stacks") else name
            options = AgentOptions(**dict.fromkeys([own] if own else [], True))
            clock = [time.process_time_ns()]
            window = Window(torch, options)
            window.prepare()
            window.start()
            marks = Marks(ranges := Ranges(torch, recorded=True, nvtx=False))
            marks.begin_step(0)
            modules = ModuleRanges(torch, ranges, print) if options.modules else None
            if modules is not None:
                modules.open(marks)
            observers.begin(options, samples=name == "stacks")
            clock.append(time.process_time_ns())
            for _ in range(2):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
            clock.append(time.process_time_ns())
            observers.end()
            if modules is not None:
                modules.close()
            marks.end_all()
            window.stop()
            window.save(spool / "window.json")
            observers.take(0)
            clock.append(time.process_time_ns())
            found[name].append((clock[2] - clock[1], clock[1] - clock[0] + clock[3] - clock[2]))
    return {name: pairs[FIRST_PAIRS:] for name, pairs in found.items()}


def main() -> None:
    torch.set_num_threads(1)
    shape = sys.argv[1]
    if shape == "windows":
        print(json.dumps(windows(float(sys.argv[2]))))
        return
    if shape.endswith("-played-gpu"):
        play()
    hooks = Hooks()
    turn = make_gpu_turn(*GPU_SHAPES[shape]) if shape in GPU_SHAPES else make_turn(*SHAPES[shape])
    deadline = time.monotonic() + float(sys.argv[2])
    pairs: list[tuple[float, float, float]] = []
    gc.disable()
    while time.monotonic() < deadline:
        spent, whole = {}, 0.0
        for on in (False, True) if len(pairs) % 2 else (True, False):
            hooks.put(on)
            spent[on], whole = turn()
        pairs.append((spent[False], spent[True], whole))
        gc.collect()
    print(json.dumps(pairs[FIRST_PAIRS:]))


if __name__ == "__main__":
    main()
