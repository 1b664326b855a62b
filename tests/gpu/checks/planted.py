"""Trainings with a planted cause on the GPU: whether it is named, whether the training without it
is left alone, and what the fix gains that perftui offers."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from tests.gpu.checks.machine import TESTS, CheckError, Machine, Row, State
from tests.verify.scenarios.expected import Kind, Nearness, Training, read_training
from tests.verify.scenarios.score import ACCUSING, judge

SCENARIOS = TESTS / "verify" / "scenarios"
PLANTED, FIXED, APPLIED = "planted", "fixed", "applied"
"""The forms of a training: with its cause, mended by hand, and with perftui's fix."""

LONGEST = 75.0
"""Seconds for a training with its start, and with those that train before it; it is stopped then,
and judged by what it did."""

AS_GOOD = 0.5
"""A fix that saves less than this part of what mending by hand saves is not right."""


@dataclass(frozen=True)
class Case:
    """A training of ``tests/verify/scenarios``."""

    name: str
    fix: str = ""
    """The fix to try, where this is one of the six whose fixes are tried."""
    is_new: bool = False
    """Its rule has never been seen to fire where a GPU computes."""

    def training(self) -> Training:
        """What is known of it."""
        places = (SCENARIOS / folder / f"{self.name}.py" for folder in ("on_gpu", "trainings"))
        return read_training(next(path for path in places if path.exists()))

    def write(self, machine: Machine, form: str) -> Path:
        """Its script in ``form``, in a directory with all others."""
        training = self.training()
        if form == FIXED:
            return machine.script(f"{self.name}_fixed.py", training.mended or "")
        return machine.script(f"{self.name}.py", training.source)

    def record(self, machine: Machine, form: str) -> Path:
        """Its run in ``form``. Raises CheckError if it failed."""
        script = self.write(machine, form)
        return machine.record(f"{self.name}/{form}", script, seconds=LONGEST, cwd=script.parent)


CASES = (
    Case("input_in_main_thread", "loader-workers"),
    Case("adamw_many_tensors", "optimizer-fused"),
    Case("matmul_in_float32", "tf32"),
    Case("convolutions_channels_first", "channels-last"),
    Case("gelu_by_hand", "compile"),
    Case("anomaly_left_on", "anomaly-off"),
    Case("transformer_without_autocast"),
    Case("masks_made_on_cpu"),
    Case("outputs_copied_to_host"),
    Case("cache_emptied_each_step"),
    Case("forward_for_metrics", is_new=True),
    Case("frozen_backbone", is_new=True),
    Case("faces_backward_for_each_task", is_new=True),
    Case("dense_embedding", is_new=True),
    Case("loss_by_sample", is_new=True),
    Case("permuted_copies", is_new=True),
    Case("singular_values", is_new=True),
    Case("sorted_neighbours", is_new=True),
    Case("clips_each_sample", is_new=True),
    Case("scores_of_every_position", is_new=True),
)
KNOWN, NEW = ([case for case in CASES if case.is_new is is_new] for is_new in (False, True))
FIXES = [case for case in CASES if case.fix]


def mean_step_ms(report: dict[str, Any]) -> float:
    """Of the steady steps. Raises CheckError if there are none."""
    steps = report["steps"]
    if not steps or not steps["mean_ns"]:
        raise CheckError("the run has no steady steps")
    return float(steps["mean_ns"]) / 1e6


def gain_by_hand(case: Case, machine: Machine) -> float:
    """How many times as fast the training is without its cause. Raises CheckError if one of both
    cannot be recorded."""
    planted, fixed = (machine.report(case.record(machine, form)) for form in (PLANTED, FIXED))
    return mean_step_ms(planted) / mean_step_ms(fixed)


def is_named(case: Case, machine: Machine) -> Iterator[Row]:
    """Whether the first finding is the planted cause, at its line."""
    expected = case.training().expected
    report = machine.report(case.record(machine, PLANTED))
    told = judge(report, expected)
    rules = [finding["rule"] for finding in report["findings"]]
    accused = next((at for at, rule in enumerate(rules, 1) if rule in expected.rules), None)
    wanted = " or ".join(expected.rules)
    if told.ok:
        text = f"{told.rule} {told.severity}"
    elif accused:
        text = f"{wanted} is finding {accused}, behind {told.rule}"
    else:
        text = f"{wanted} is not found; first: {told.rule or 'nothing'}"
    is_there = told.nearness is not Nearness.WRONG
    text += f", at {told.place or 'no place'}" + ("" if is_there else " (wrong)")
    values = {
        "step_ms": mean_step_ms(report),
        "rules": rules,
        "place": told.place,
        "share": told.share,
        "never_fired_before": case.is_new,
    }
    yield Row.of(f"{case.name}", told.ok and is_there, text, **values)


def is_left_alone(case: Case, machine: Machine) -> Iterator[Row]:
    """Whether the training without its cause is accused of it, and what else is said of it."""
    gain, fixed = gain_by_hand(case, machine), machine.report(case.record(machine, FIXED))
    expected = replace(case.training().expected, kind=Kind.REPAIRED, planted=None)
    told = judge(fixed, expected)
    others = [one["rule"] for one in fixed["findings"] if one["severity"] in ACCUSING]
    said = f"accused of {told.rule}" if not told.ok else f"first: {', '.join(others[:1]) or 'none'}"
    text = f"{said}; {gain:.2f}x by hand, step {mean_step_ms(fixed):.2f} ms"
    yield Row.of(f"{case.name} mended", told.ok, text, gain=gain, accusing=others)


def is_mended(case: Case, machine: Machine) -> Iterator[Row]:
    """What the fix gains that perftui writes, beside mending by hand; undone byte for byte."""
    name = f"{case.fix} of {case.name}"
    root, script = case.record(machine, PLANTED), case.write(machine, PLANTED)
    before = script.read_bytes()
    machine.perftui("apply", case.fix, root, cwd=script.parent).checked()
    if script.read_bytes() == before:
        raise CheckError(f"apply {case.fix} wrote nothing")
    try:
        applied = case.record(machine, APPLIED)
        told = machine.asked("compare", "--no-repeats", root, applied)
    finally:
        undone = machine.perftui("undo", root, cwd=script.parent)
    if script.read_bytes() != before:
        yield Row(name, State.WRONG, f"undo did not restore {script.name}: {undone.last_words}")
        return
    by_hand = gain_by_hand(case, machine)
    said = ": ".join(filter(None, (told["outcome"], told["reason"])))
    yield judge_fix(name, told["ratio"], by_hand, f"{said}; undone byte for byte")


def is_proven(case: Case, machine: Machine) -> Iterator[Row]:
    """What ``perftui try`` says of the fix, whole or as far as it comes."""
    root = case.record(machine, PLANTED)
    script = case.write(machine, PLANTED)
    command = ("try", case.fix, root, "--json", "--max-steps", "60")
    ended = machine.perftui(*command, seconds=150, cwd=script.parent)
    ratios = [float(each) for each in re.findall(r"^pair \d+: .* ([\d.]+)x$", ended.err, re.M)]
    if not ratios:
        raise CheckError(f"no pair of runs ended: {ended.last_words}")
    headline = "stopped before the end"
    if not ended.late and ended.out:
        headline = json.loads(ended.out)["headline"]
    pairs = f"{len(ratios)} pair{'s' * (len(ratios) != 1)}"
    by_hand = gain_by_hand(case, machine)
    yield judge_fix(f"try {case.fix}", median(ratios), by_hand, f"{pairs}; {headline}")


def judge_fix(name: str, gain: float | None, by_hand: float, said: str) -> Row:
    """A gain beside the one by hand."""
    if gain is None:
        return Row(name, State.WRONG, f"no ratio; {said}")
    text = f"{gain:.2f}x, by hand {by_hand:.2f}x; {said}"
    return Row.of(name, gain - 1 >= AS_GOOD * (by_hand - 1), text, gain=gain, by_hand=by_hand)


def truths(machine: Machine) -> list[dict[str, Any]]:
    """What is known of every training that was recorded, in the form that ``recordings.py`` of the
    scenarios reads."""
    known = []
    for case in CASES:
        runs = machine.work / "runs" / case.name
        forms = sorted(path.parent.parent.name for path in runs.glob("*/*/run.json"))
        if not forms:
            continue
        training = case.training()
        expected = training.expected
        lines = sorted(expected.planted.lines) if expected.planted else []
        known.append(
            {
                "name": case.name,
                "rule": ", ".join(expected.rules),
                "place": f"{case.name}.py:{','.join(map(str, lines))}",
                "planted": training.source.partition("\n")[0].removeprefix('"""'),
                "gain": None,
                "recordings": forms,
            }
        )
    return known
