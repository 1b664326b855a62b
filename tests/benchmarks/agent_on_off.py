"""Trains in one process with the agent's hooks in place and without, in turns.

Two processes never share their caches and their luck, and on a busy machine their times differ by a
tenth; turns of some 30 ms in one process differ by a hundredth. Started by ``bench_agent_step.py``
with a name of ``SHAPES`` and the seconds to take; prints the CPU ns of a step, off and on, of every
pair of turns as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from perftui.agent.arm import arm

SHAPES = {"tiny": (8, 11, 4, 20, 4), "realistic": (1024, 6, 64, 2, 1)}
"""Width, blocks, batch, steps in a turn, and steps before them that are not counted, in which
caches and the agent's idea of the loop settle. Tiny steps take 1 ms: some thousand operators in 33
modules, the worst case. Realistic ones take 30 ms and more."""

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


def make_turn(width: int, blocks: int, batch: int, steps: int, warm: int) -> Callable[[], float]:
    """A function that trains for one turn and returns the CPU ns of a step."""
    layers = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(blocks)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    data = TensorDataset(torch.randn((warm + steps) * batch, width))

    def turn() -> float:
        start = 0
        for index, (x,) in enumerate(DataLoader(data, batch)):
            if index == warm:
                start = time.thread_time_ns()
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        return (time.thread_time_ns() - start) / steps

    return turn


def main() -> None:
    torch.set_num_threads(1)
    hooks, turn = Hooks(), make_turn(*SHAPES[sys.argv[1]])
    deadline = time.monotonic() + float(sys.argv[2])
    pairs: list[tuple[float, float]] = []
    gc.disable()
    while time.monotonic() < deadline:
        spent = {}
        for on in (False, True) if len(pairs) % 2 else (True, False):
            hooks.put(on)
            spent[on] = turn()
        pairs.append((spent[False], spent[True]))
        gc.collect()
    print(json.dumps(pairs[FIRST_PAIRS:]))


if __name__ == "__main__":
    main()
