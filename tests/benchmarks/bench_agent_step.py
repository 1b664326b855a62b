"""What the agent adds to each step, by CPU time, and how long a window holds the training up.

Starts the same loop with and without the agent in turns (ABBA), one thread each. The small model
is the worst case: steps of about a millisecond made of a thousand operators in 33 modules.

Run with ``python tests/benchmarks/bench_agent_step.py [pairs]``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import perftui.agent

INJECT = Path(perftui.agent.__file__).parent / "inject"

LOOP = """
import sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
steps, width, depth = map(int, sys.argv[1:])
layers = [nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(depth)]
model = nn.Sequential(*layers)
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
data = TensorDataset(torch.randn(steps * 4, width))
def train():
    for (x,) in DataLoader(data, 4):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
train()
best = []
for _ in range(3):
    start = time.process_time_ns()
    train()
    best.append(time.process_time_ns() - start)
print(min(best) // steps)
"""

SHAPES = {"many tiny operators": (400, 8, 11), "wide layers": (25, 1024, 8)}


def step_ns(shape: tuple[int, int, int], spool: str | None, options: dict[str, object]) -> int:
    """CPU nanoseconds of a step, the least of three epochs after a warm one."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if spool is not None:
        env.update(PYTHONPATH=str(INJECT), PERFTUI_SPOOL=spool, PERFTUI_OPTIONS=json.dumps(options))
    command = [sys.executable, "-c", LOOP, *map(str, shape)]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return int(done.stdout)


def compare(name: str, pairs: int) -> None:
    ratios, added = [], []
    for pair in range(pairs):
        with tempfile.TemporaryDirectory() as spool:
            order = [None, spool] if pair % 2 else [spool, None]
            times = {one: step_ns(SHAPES[name], one, {"profile": False}) for one in order}
            ratios.append(times[spool] / times[None])
            added.append((times[spool] - times[None]) / 1e3)
    ratio, more = statistics.median(ratios), statistics.median(added)
    spread = f"{min(ratios):.3f}..{max(ratios):.3f}"
    print(f"{name}: step ratio {ratio:.4f} ({spread}), adds {more:+.1f} us a step")


def windows(name: str, stacks: bool) -> None:
    with tempfile.TemporaryDirectory() as spool:
        step_ns(SHAPES[name], spool, {"stacks": stacks})
        notes = "".join(path.read_text() for path in Path(spool).glob("notes-*"))
        found = [json.loads(line) for line in notes.splitlines()]
        data = next(note["data"] for note in found if note["kind"] == "window")
        trace = json.loads((Path(spool) / data["file"]).read_text())
        events = sum(event.get("ph") == "X" for event in trace["traceEvents"])
    print(
        f"{name}, {'with' if stacks else 'without'} stacks: window of {data['steps']} steps, "
        f"{events} events, {data['bytes'] / 1e6:.1f} MB, held up {data['stall'] / 1e6:.1f} ms"
    )


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    for name in SHAPES:
        compare(name, pairs)
        windows(name, stacks=False)
        windows(name, stacks=True)


if __name__ == "__main__":
    main()
