"""What the agent adds to the start of an interpreter, by CPU time.

Run with ``python tests/verify/benchmarks/bench_agent_startup.py [rounds]``."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import perftui.agent

INJECT = Path(perftui.agent.__file__).parent / "inject"


def cpu_ms(code: str, env: dict[str, str]) -> float:
    """CPU milliseconds, user and system, of one interpreter that runs ``code``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def compare(code: str, rounds: int, spool: str) -> None:
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    armed = {**alone, "PYTHONPATH": str(INJECT), "PERFTUI_SPOOL": spool}
    times: dict[str, list[float]] = {"alone": [], "armed": []}
    for round_number in range(rounds):
        # Which goes first alternates, so that a drift of the machine falls on both.
        pair = [("alone", alone), ("armed", armed)]
        for name, env in pair if round_number % 2 else reversed(pair):
            times[name].append(cpu_ms(code, env))
    median = {name: statistics.median(values) for name, values in times.items()}
    added = statistics.median(
        after - before for before, after in zip(times["alone"], times["armed"], strict=True)
    )
    ratio = median["armed"] / median["alone"]
    print(f"{code!r}: {median['alone']:.2f} ms, ratio {ratio:.3f}, adds {added:+.2f} ms")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as spool:
        compare("pass", rounds, spool)
        compare("import torch", max(rounds // 10, 5), spool)


if __name__ == "__main__":
    main()
