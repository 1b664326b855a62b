"""Whether trainings come to the same end with perftui and without: weights, random states, output
and exit code, bit by bit."""

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from perftui.run.reader import RunReader, list_runs
from tests.gpu.checks.machine import TESTS, Ended, Machine, Row, State

LOOPS = {
    "pinned_pictures": "a CNN with loader workers and pinned memory",
    "scaled_transformer": "a transformer with autocast and GradScaler",
    "compiled": "a compiled model",
    "accumulation": "accumulated gradients",
    "adversarial": "a GAN",
    "inference": "inference",
}
"""Of ``tests/capture/loops.py``, each trained in a process of its own."""

WATCHED = "watched"

CODE = 7
"""What the script exits with."""

DIGEST = re.compile("[0-9a-f]{16}")
"""Of the weights and random states, where a loop came to its end."""

SECONDS = 100.0


def same_results(machine: Machine) -> Iterator[Row]:
    """Train all loops three times side by side, once with perftui."""
    script = TESTS / "capture" / "run_loops.py"
    words = (script, *LOOPS)
    runs = machine.work / "runs" / "same-results"

    def trained(way: str) -> Ended:
        env = {"TRAIN_ON": machine.device, "EXIT_WITH": str(CODE)}
        if machine.device == "cuda":
            # What is compiled already is compiled without a word.
            caches = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
            env |= {cache: str(machine.work / "compiled" / way / cache) for cache in caches}
            env["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        if way != WATCHED:
            return machine.run(sys.executable, *words, seconds=SECONDS, env=env)
        options = ("--headless", "--runs", runs, "--steps", "8-11", "--shapes", "--modules")
        return machine.perftui(*options, *words, seconds=SECONDS, env=env)

    with ThreadPoolExecutor(3) as pool:
        alone, again, watched = pool.map(trained, ("alone", "again", WATCHED))
    yield from judge(alone, again, watched)
    ranks = [rank for entry in list_runs(runs) for rank in RunReader(entry.root).poll().ranks]
    steps, windows = (
        sum(len(rank.steps) for rank in ranks),
        sum(len(rank.windows) for rank in ranks),
    )
    text = f"{steps} steps and {windows} windows of {len(ranks)} processes"
    yield Row.of("recorded", windows >= len(LOOPS) - 1 and steps > 0, text)


def judge(alone: Ended, again: Ended, watched: Ended) -> Iterator[Row]:
    """What two runs without perftui and one with it say of every loop."""
    ends = [_ends(one) for one in (alone, again, watched)]
    for name, what in LOOPS.items():
        first, second, ours = (one.get(name, "did not end") for one in ends)
        if first != second:
            text = f"{what}: two trainings without perftui differ: {first}, {second}"
            yield Row(name, State.UNKNOWN, text)
        else:
            told = f"{what}: {first}" + ("" if ours == first else f", with perftui {ours}")
            yield Row.of(name, ours == first and bool(DIGEST.fullmatch(first)), told)
    printed = [(one.code, _rest(one)) for one in (alone, watched)]
    text = f"exit codes {alone.code} and {watched.code}, "
    text += "equal output" if printed[0] == printed[1] else f"with perftui: {watched.last_words}"
    yield Row.of("output and exit code", printed[0] == printed[1] and alone.code == CODE, text)


def _ends(run: Ended) -> dict[str, str]:
    """The end of each loop: a digest, or that it failed."""
    lines = (line.split(maxsplit=2) for line in run.out.splitlines())
    return {words[0]: words[2] for words in lines if len(words) == 3 and words[0] in LOOPS}


def _rest(run: Ended) -> list[str]:
    """All other lines, without the numbers of processes."""
    return [
        line
        for line in (*run.out.splitlines(), *run.err.splitlines())
        if line.partition(" ")[0] not in LOOPS
    ]
