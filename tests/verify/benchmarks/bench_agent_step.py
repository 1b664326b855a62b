"""What the agent costs: each step, a window, a whole run, and every other interpreter.

Ends within five minutes. Each figure stands beside what is to be reached at least. Steps are
compared within one process, with the hooks and without in turns (``agent_on_off.py``), by the CPU
time of the training thread: the median of what is added in the pairs, and the interval in which it
lies with 95 % certainty; an interval around 0 means that nothing can be measured. Others on
the same cores make every step slower, and ours more than in proportion, because they take the
caches; so the quietest tenth of the turns is compared too.

Run with ``python tests/verify/benchmarks/bench_agent_step.py [seconds for each kind of step]``."""

import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from perftui.facts.fact import Facts
from perftui.facts.step.own_cost import recording_cost
from perftui.recorder.launch import training_environment
from perftui.run.reader import RunReader, RunSnapshot, list_runs
from perftui.wire.spool import AgentOptions

HERE = Path(__file__).parent

STARTS = 150
START_SECONDS = 40
"""Fewer of them on a busy machine."""

FEWEST_PAIRS = 8
"""Of which a median may be told."""

SCRIPT = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
width, blocks = WIDTH, 8
model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(blocks)])
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
data = TensorDataset(torch.randn(6400, width))
until = time.monotonic() + SECONDS
while time.monotonic() < until:
    for (x,) in DataLoader(data, 64):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
"""
"""Steps of some 2 ms at a width of 256, 30 ms at 1024."""

WIDTHS = {"short": 256, "realistic": 1024}


def alone() -> dict[str, str]:
    """The environment without anything of perftui in it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PERFTUI")}
    kept.pop("PYTHONPATH", None)
    return {**kept, "OMP_NUM_THREADS": "1"}


def median_within(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and the order statistics between which the true one lies with 95 %."""
    ordered = sorted(values)
    reach = 0.98 * math.sqrt(len(ordered))
    low, high = math.floor(len(ordered) / 2 - reach), math.ceil(len(ordered) / 2 + reach)
    return statistics.median(ordered), ordered[max(low, 0)], ordered[min(high, len(ordered) - 1)]


def steps(shape: str, seconds: float, most: str) -> None:
    command = [sys.executable, str(HERE / "agent_on_off.py"), shape, str(seconds)]
    done = subprocess.run(command, env=alone(), check=True, capture_output=True, text=True)
    pairs = json.loads(done.stdout)
    if len(pairs) < FEWEST_PAIRS:
        print(f"outside windows, {shape} steps: only {len(pairs)} pairs, the machine is too busy")
        return
    added, low, high = median_within([100 * (on - off) / whole for off, on, whole in pairs])
    more = statistics.median(on - off for off, on, _ in pairs)
    quiet_off, quiet_on, usual = (sorted(one)[len(one) // 10] for one in zip(*pairs, strict=True))
    quiet = f"in the quietest tenth {100 * (quiet_on - quiet_off) / usual:+.2f} %"
    print(
        f"outside windows, {shape} steps of {usual / 1e6:.2f} ms: {added:+.2f} % "
        f"({low:+.2f} to {high:+.2f}), {more / 1e3:+.1f} us a step, {quiet}, {len(pairs)} pairs; "
        f"at most {most}",
        flush=True,
    )


def evidence(seconds: float) -> None:
    """What each kind of evidence adds to a window, by the median of its turns."""
    command = [sys.executable, str(HERE / "agent_on_off.py"), "windows", str(seconds)]
    done = subprocess.run(command, env=alone(), check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    usual = [statistics.median(one) for one in zip(*found["nothing"], strict=True)]
    for name, pairs in found.items():
        of = [statistics.median(one) for one in zip(*pairs, strict=True)]
        ratios = [part / whole for part, whole in zip(of, usual, strict=True)]
        print(
            f"two profiled steps with {name}: {of[0] / 1e6:.1f} ms ({ratios[0]:.2f} times), "
            f"which wait {of[1] / 1e6:.1f} ms ({ratios[1]:.2f} times), {len(pairs)} windows",
            flush=True,
        )


def recorded(*command: str) -> RunSnapshot:
    """A run of a script as people start it."""
    with tempfile.TemporaryDirectory() as runs:
        perftui = [sys.executable, "-m", "perftui_tui", "--headless", "--runs", runs]
        subprocess.run([*perftui, *command], env=alone(), check=True, capture_output=True)
        (run,) = list_runs(Path(runs))
        return RunReader(run.root).poll()


def whole_run(seconds: int, steps: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "train.py"
        width = str(WIDTHS[steps])
        script.write_text(SCRIPT.replace("SECONDS", str(seconds)).replace("WIDTH", width))
        tell_cost(recorded(str(script)), steps)


def tell_cost(run: RunSnapshot, steps: str) -> None:
    (rank,) = run.ranks
    cost = recording_cost(Facts(run))
    events = zip(rank.events["kind"], rank.events["data"], strict=True)
    stalls = [data["stall"] for kind, data in events if kind == "window"]
    if cost is None:
        raise RuntimeError("the run holds no steps")
    whole = cost.whole
    step = whole / len(rank.steps["index"])
    shares = [
        100 * part / whole for part in (cost.total, cost.hooks, cost.stalls, cost.slowed_at_most)
    ]
    print(
        "whole run of {:.0f} s, {} steps of {:.1f} ms: {:.2f} % of its time (hooks {:.2f} %, "
        "windows held up {:.2f} %, slowed at most {:.2f} %); at most 1 %\n".format(
            whole / 1e9, steps, step / 1e6, *shares
        )
        + f"longest stall of {len(stalls)} windows: {max(stalls, default=0) / 1e6:.1f} ms; "
        "at most 150 ms",
        flush=True,
    )


def cpu_ms(env: dict[str, str]) -> float:
    """CPU milliseconds, user and system, of an interpreter that does nothing."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "pass"], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def starts() -> None:
    with tempfile.TemporaryDirectory() as spool:
        # The worst case: nothing that Python compiles is kept.
        without = {**alone(), "PYTHONDONTWRITEBYTECODE": "1"}
        armed = training_environment(without, Path(spool), AgentOptions())
        times: list[tuple[float, float]] = []
        until = time.monotonic() + START_SECONDS
        while len(times) < STARTS and time.monotonic() < until:
            times.append((cpu_ms(without), cpu_ms(armed)))
    least = [min(one) for one in zip(*times, strict=True)]
    middle = [statistics.median(one) for one in zip(*times, strict=True)]
    print(
        f"start of another interpreter ({least[0]:.1f} ms): {least[1] - least[0]:+.2f} ms by the "
        f"least, {middle[1] - middle[0]:+.2f} ms by the median of {len(times)}; at most 2 ms",
        flush=True,
    )


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before", flush=True)
    steps("tiny", seconds, "4 %")
    steps("tiny-without-loader", seconds, "4 %")
    steps("realistic", seconds, "0.5 %")
    steps("realistic-played-gpu", 2 * seconds, "0.5 %")
    evidence(seconds)
    for kind in WIDTHS:
        whole_run(25, kind)
    starts()


if __name__ == "__main__":
    main()
