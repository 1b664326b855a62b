"""How often `perftui check --against history` is wrong, by simulated runs.

    python tests/verify/benchmarks/bench_history.py [SERIES]

Prints the table of docs/experiments.md. The logarithms of the steps are normal, or Student's t with
3 degrees of freedom (many outliers), or drift: half of the variance is that of a slow process with
a correlation of 0.7 from run to run. SERIES (default 20,000) are simulated for each row."""

import sys
from itertools import product

import numpy as np
import numpy.typing as npt

from perftui.experiments.history import FEWEST_RUNS, Standing, levels
from perftui.experiments.trial_verdict import NOISE_MANY

SPREADS = (0.03, 0.06, 0.09)
"""Any two runs differ by less than that in 95 % of cases."""

EARLIER = (FEWEST_RUNS, 10, 29)
CHANGES = (0.0, 0.1, 0.2)
LATER = 3
DRIFT = 0.7


def noise(
    kind: str, spread: float, runs: int, source: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Logarithms of the steps of one series."""
    deviation = np.log1p(spread) / (1.96 * np.sqrt(2))
    if kind == "normal":
        return source.normal(0, deviation, runs)
    if kind == "outliers":
        return source.standard_t(3, runs) * deviation / np.sqrt(3)
    part = deviation * np.sqrt(0.5)
    slow = np.zeros(runs)
    slow[0] = source.normal(0, part)
    for at in range(1, runs):
        slow[at] = DRIFT * slow[at - 1] + source.normal(0, part * np.sqrt(1 - DRIFT**2))
    return slow + source.normal(0, part, runs)


def share(kind: str, spread: float, earlier: int, change: float, slow: int, count: int) -> float:
    """How often one of the ``slow`` newest runs is called slower."""
    source = np.random.default_rng(20261128)
    found = 0
    for _ in range(count):
        steps = noise(kind, spread, earlier + slow, source)
        steps[earlier:] += np.log1p(change)
        times = np.rint(1e8 * np.exp(steps)).astype(int).tolist()
        newest = levels(times, [NOISE_MANY] * len(times))[earlier:]
        found += any(one.place is Standing.SLOWER for one in newest)
    return found / count


def main(count: int) -> None:
    """Print the table."""
    print("| Noise | Two runs differ by | Earlier runs | False | 10 % | 10 %, 3 runs | 20 % |")
    print("|---|---|---|---|---|---|---|")
    for kind, spread, earlier in product(("normal", "outliers", "drift"), SPREADS, EARLIER):
        cells = [share(kind, spread, earlier, change, 1, count) for change in CHANGES]
        cells.insert(2, share(kind, spread, earlier, 0.1, LATER, count))
        figures = " | ".join(f"{100 * one:.1f} %" for one in cells)
        print(f"| {kind} | {100 * spread:.0f} % | {earlier} | {figures} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
