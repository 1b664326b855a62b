"""``python-bound``: the script's own Python takes the time, and the device or the model waits."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.analysis.steps.parts import EXPOSED_COPIES
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Lost, Rule
from perftui.facts.cpu.core_wait import without_core_wait
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.gpu.gpu import has_gpu
from perftui.facts.place import Place
from perftui.facts.script.script_python import ScriptFunction, ScriptPython, script_python
from perftui.facts.step.judged_step import JudgedStep, judged_step

LEAST_NAMED = 0.25
"""Share of the script's own Python that a function or a line must have to be named."""

COPIES_BESIDE = 0.5
"""Exposed copies, as a share of the script's own Python, from which on both may be one cause."""

_SHOWN = 4
"""Lines listed."""


def _lost(facts: Facts) -> Lost | None:
    if facts.run is None:
        # What of a trace is the script's own Python shows in no range of it.
        raise NotApplicableError
    judged, found = judged_step(facts), script_python(facts)
    if not judged.on_device and has_gpu(facts):
        raise UnknownError("no profiled window shows whether the GPU idles meanwhile")
    step = judged.of
    at = found.at if found.at and found.at.share >= LEAST_NAMED else None
    who = "The GPU idles" if judged.on_device else "The script's own Python takes"
    while_ = " while the script runs its own Python" if judged.on_device else ""
    return Lost(
        found.ns,
        step,
        f"{who} {fmt.part_of_step(found.ns, step.mean)}{while_}{_named(at)}.",
        (
            Figure.share("the script's own Python", found.ns / step.mean, PYTHON.limits.warning),
            *_lines(found, facts),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
        ),
        place=_place(at, facts),
        parts=found.parts,
        share=without_core_wait(facts, found.ns, step.mean),
        doubt=_doubt(judged, found, at),
        unproven=_unproven(found, at),
    )


def _named(at: ScriptFunction | None) -> str:
    if at is None:
        return ""
    what = f"{at.words}, " if at.words else ""
    where = f"in {at.name} ({at.line.short})" if at.name else f"at {at.line.short}"
    return f": {fmt.percent(at.share)} of it is {what}{where}"


def _doubt(judged: JudgedStep, found: ScriptPython, at: ScriptFunction | None) -> str:
    """A copy that blocks, and freeing what was copied, look like Python where no text shows it."""
    copies = judged.part(EXPOSED_COPIES)
    if not judged.on_device or copies < COPIES_BESIDE * found.ns or (at and at.words):
        return ""
    where = f"what {at.line.short} does" if at else "which line of the script it is"
    return (
        f"the GPU idles {fmt.part_of_step(found.ns, judged.of.mean)} while the script runs Python, "
        f"but {where} is not known, and copies take as long"
    )


def _place(at: ScriptFunction | None, facts: Facts) -> Place | None:
    return facts.at(at.line) if at else None


def _lines(found: ScriptPython, facts: Facts) -> list[Figure]:
    if found.at is None:
        return []
    lines = found.at.lines
    return [
        Figure.share(
            f"at {line.short}",
            lines.share(line),
            place=facts.at(line),
        )
        for line in lines.listed[:_SHOWN]
    ]


def _unproven(found: ScriptPython, at: ScriptFunction | None) -> str:
    if not found.sees_operators:
        return "a profiled window that shows the operators"
    return "" if at else "stack samples that show the line"


PYTHON = Rule(
    id="python-bound",
    when="the script's own Python takes long: logging, statistics, copies, waiting",
    explanation=(
        "Between forward, backward and optimizer the script does its own work in Python, and the "
        "model waits for it. Do it every N steps, on whole tensors rather than number by number, "
        "or in a separate thread or process."
    ),
    lost=_lost,
    limits=Limits(
        0.10,
        0.20,
        "perfessor reports host time from 15 %, the TensorBoard plugin any part of a step from 10 "
        "%; half of that is worth a hint.",
        info=0.05,
    ),
    claims=Claim(idle=GapCause.PYTHON),
    fixes=("sleep-off", "less-often"),
    answer="every N steps, on whole tensors, or in the background",
)
