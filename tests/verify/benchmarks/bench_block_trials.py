"""How often a trial of a switch is wrong, whose pairs are blocks within runs.

    python tests/verify/benchmarks/bench_block_trials.py [RUNS]

The training of ``bench_trials.py`` is run RUNS times (default 104) with a switch that flips to what
it is anyway. Every five runs in turn are a trial of up to 14 pairs that changes nothing: what it
calls faster or slower is a false alarm. The same with every changed block 5 % and 20 % faster is
the power. Trials overlap, so that as many as runs less four share them: read the shares as within 5
points."""

import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median

from perftui.experiments.trial import BlockRun, block_plan, block_run
from perftui.experiments.trial_runs import (
    Arm,
    TrialSetup,
    facts_of,
    noise,
    run_at,
    runs_of,
    steps_of_each,
)
from perftui.experiments.trial_verdict import LOOKS, TrialVerdict, judge
from perftui.experiments.tune import record
from perftui.fixes.option import FixOption
from perftui.recorder.launch import Launch
from perftui.run.manifest import Override

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.verify.benchmarks.bench_trials import SCRIPT, print_ends

RUNS = 104
SAME = FixOption("threads", "threads 1 -> 1", "", override=Override("switch", {"threads": 1}))


def measure(count: int, directory: Path) -> list[BlockRun]:
    """So many runs with blocks that are all the same."""
    script = directory / "train.py"
    script.write_text(SCRIPT)
    launch = Launch((sys.executable, str(script)), directory, directory / "runs")
    setup = TrialSetup(directory / "trials", 300, threading.Event())
    run = run_at(record(launch, setup))
    facts = facts_of(run.root)
    steps = steps_of_each(facts)
    plan = block_plan(facts, SAME, steps)
    if plan is None:
        raise SystemExit(f"no blocks fit into {steps} steps")
    print(f"{count} runs of {steps} steps in blocks of {plan.steps}", flush=True)
    made = []
    for number in range(count):
        arm = tuple(Arm)[number % 2]
        one = block_run(run, SAME, plan, arm, replace(setup, steps=steps))
        if one is None:
            raise SystemExit(f"run {number + 1} has no whole blocks")
        made.append(one)
    return made


def tried(runs: Sequence[BlockRun], gain: float) -> TrialVerdict:
    """What a trial says that meets these runs, the changed blocks faster by ``gain``."""
    floors: list[float] = []
    ratios: list[float] = []
    for run in runs:
        floors.append(noise(list(run.blocks)) or 0.0)
        for pair in run.pairs:
            ratios.append(pair.ratio * gain)
            verdict = judge(ratios, median(floors))
            if verdict.outcome.is_decided or len(ratios) == LOOKS[-1][0]:
                return verdict
    raise ValueError("too few runs for a trial")


def main() -> None:
    """Measure, and print how the trials end."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with tempfile.TemporaryDirectory() as directory:
        runs = measure(count, Path(directory))
    apart = median(noise(list(run.blocks)) or 0.0 for run in runs)
    one_pair = median(abs(pair.ratio - 1) for pair in chain.from_iterable(r.pairs for r in runs))
    print(f"two identical blocks differ by {apart:.1%}, the two of a pair by {one_pair:.1%}")
    most = runs_of(LOOKS[-1][0], len(runs[0].pairs))
    trials = [runs[at : at + most] for at in range(len(runs) - most + 1)]
    print_ends(trials, tried)


if __name__ == "__main__":
    main()
