"""How often a trial is wrong: over runs that are all the same, and with a known gain.

    python tests/verify/benchmarks/bench_trials.py [RUNS] [SECONDS] [FILE]

A small training is run RUNS times (default 128), each for SECONDS of steps (default that of a
trial). Every stretch of 28 runs in turn is a trial of up to 14 pairs that changes nothing: what it
calls faster or slower is a false alarm. The same with every changed run 5 % and 20 % faster is the
power. Stretches overlap, so that as many trials as runs less 27 share them: read the shares as
within 5 points. FILE keeps the times; where it is there they are judged again."""

import collections
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import TypeVar

from perftui import format as fmt
from perftui.experiments import trial_runs as trial_runs
from perftui.experiments.rerun import repeat_launch
from perftui.experiments.trial_runs import (
    Arm,
    TrialRun,
    TrialSetup,
    facts_of,
    noise,
    order,
    run_at,
    steps_of_each,
)
from perftui.experiments.trial_verdict import LOOKS, TrialVerdict, judge
from perftui.experiments.tune import record
from perftui.recorder.launch import Launch

SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.Linear(512, 8))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
data, labels = torch.randn(4096, 256), torch.randint(0, 8, (4096,))
for step in range(100_000):
    chosen = torch.randint(0, 4096, (64,))
    loss = nn.functional.cross_entropy(model(data[chosen]), labels[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
T = TypeVar("T")

RUNS = 128
STRETCH = 2 * LOOKS[-1][0]
GAINS = (1.0, 1.05, 1.2)


def measure(count: int, directory: Path) -> list[int]:
    """Step times of so many runs of the same training, ns."""
    script = directory / "train.py"
    script.write_text(SCRIPT)
    command = (sys.executable, str(script))
    setup = TrialSetup(directory / "trials", 300, threading.Event())
    first = record(Launch(command, directory, directory / "runs"), setup)
    steps = steps_of_each(facts_of(first))
    setup, launch = replace(setup, steps=steps), repeat_launch(run_at(first))
    print(f"{count} runs of {steps} steps", flush=True)
    times = []
    for number in range(count):
        times.append(setup.measure(Arm.BEFORE, launch).step_ns)
        if number % 16 == 15:
            print(f"  {number + 1}: {fmt.duration(round(median(times)))} a step", flush=True)
    return times


def tried(times: Sequence[int], gain: float) -> TrialVerdict:
    """What a trial says that meets runs of these times, the changed ones faster by ``gain``."""
    made: list[TrialRun] = []
    ratios: list[float] = []
    given = iter(times)
    for arms in islice(order(), LOOKS[-1][0]):
        pair = {arm: next(given) / (gain if arm is Arm.AFTER else 1) for arm in arms}
        made += [TrialRun(arm, Path(), round(time)) for arm, time in pair.items()]
        ratios.append(pair[Arm.BEFORE] / pair[Arm.AFTER])
        verdict = judge(ratios, noise(made) or 0.0)
        if verdict.outcome.is_decided:
            break
    return verdict


def print_ends(trials: Sequence[T], tried: Callable[[T, float], TrialVerdict]) -> None:
    """Print how all ``trials`` end, as they are and with gains."""
    for gain in GAINS:
        ends = collections.Counter(tried(one, gain).outcome.value for one in trials)
        told = ", ".join(f"{name} {number}" for name, number in ends.most_common())
        print(f"{gain:.2f}x in {len(trials)} trials: {told}")


def main() -> None:
    """Measure, and print how the trials end."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    if len(sys.argv) > 2:
        trial_runs.RUN_SECONDS = float(sys.argv[2])
    kept = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    if kept is not None and kept.exists():
        times = json.loads(kept.read_text())
    else:
        with tempfile.TemporaryDirectory() as directory:
            times = measure(count, Path(directory))
    if kept is not None:
        kept.write_text(json.dumps(times))
    apart = median(abs(after / before - 1) for before, after in pairwise(times))
    print(f"two runs in turn differ by {apart:.1%}, the median")
    stretches = [times[at : at + STRETCH] for at in range(len(times) - STRETCH + 1)]
    print_ends(stretches, tried)


if __name__ == "__main__":
    main()
