"""Steps take longer than in earlier runs of the same command."""

from __future__ import annotations

import numpy as np

from perftui import format as fmt
from perftui.diagnosis.earlier_runs import earlier_runs
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.step.steady import median
from perftui.facts.step.steps import MANY_STEPS, run_is_over, steady_step
from perftui.run.manifest import Manifest
from perftui.trace.text import printable

FEWEST_RUNS = 2
"""Earlier runs below which a difference may be chance."""

_CHANGES = {
    "git_commit": "the git commit",
    "git_dirty": "uncommitted changes",
    "torch_version": "PyTorch's version",
    "python_version": "Python's version",
    "interpreter": "the interpreter",
    "gpus": "the GPUs",
    "cpu_count": "the usable cores",
}
"""Fields of the manifest that may explain it."""


def _slower(facts: Facts) -> Lost | None:
    """Why is not known, so the cost is 0."""
    if facts.run is None or not run_is_over(facts):
        raise NotApplicableError
    run = facts.run
    earlier = earlier_runs(run.root, run.manifest)
    if len(earlier) < FEWEST_RUNS:
        raise NotApplicableError
    step = steady_step(facts)
    if step.count < MANY_STEPS:
        return None
    usual = round(median(np.array([one.step_ns for one in earlier])))
    changed = _changed(earlier[0].manifest, run.manifest)
    return Lost(
        0,
        None,
        f"The mean step takes {fmt.duration(step.mean)}, against {fmt.duration(usual)} in "
        f"{len(earlier)} earlier runs of the same command: {_why(changed)}.",
        (
            Figure("mean step", step.mean, "ns"),
            Figure("median of the mean steps of earlier runs", usual, "ns"),
            *(Figure(f"before: {what}", value) for what, value in changed.items()),
        ),
        share=step.mean / usual - 1,
        worst=Severity.INFO,
    )


def _changed(before: Manifest, now: Manifest) -> dict[str, str]:
    """What the newest earlier run had instead, by what it is, where both are known."""
    pairs = ((what, getattr(before, name), getattr(now, name)) for name, what in _CHANGES.items())
    known = ((what, old) for what, old, new in pairs if old not in (None, "", ()) and old != new)
    return {what: printable(_text(old)) for what, old in known}


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _why(changed: dict[str, str]) -> str:
    if not changed:
        return "nothing on record has changed since the last of them"
    return f"changed since the last of them: {' and '.join(changed)}"


SLOWER = Rule(
    id="slower-than-before",
    when="steps take longer than in earlier runs of the same command",
    explanation=(
        "Earlier runs of the same command on the same machine, in the same directory, had shorter "
        "steps. The code, a library or the data may have changed, or the machine is doing other "
        "work. perftui compare shows two of them side by side."
    ),
    lost=_slower,
    limits=Limits.of_hint(
        0.10,
        "gpuprof reports 10 % above the median of at least two earlier runs; runs on a shared "
        "machine differ by a few per cent.",
        of="above earlier runs",
    ),
    answer="find what changed since then",
)
