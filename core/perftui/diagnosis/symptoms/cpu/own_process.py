"""Another process of the script's own takes the cores that the training could use."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.cpu.core_wait import wait_for_own_processes
from perftui.facts.cpu.machine import BUSY_SHARE, machine_use
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.source.operator_lines import at, line_with, place_of
from perftui.facts.step.judged_step import judged_step

_STARTING = frozenset({"Process", "Popen", "Pool", "ProcessPoolExecutor"})
"""What starts processes, as scripts call it."""


def _own_process(facts: Facts) -> Lost | None:
    if facts.run is None:
        raise NotApplicableError
    use, waited = machine_use(facts), wait_for_own_processes(facts)
    if not waited or use.rest_cores is None or use.cores is None:
        return None
    judged = judged_step(facts)
    cost = round(waited * judged.of.mean)
    if judged.on_device:
        cost = min(cost, judged.of.mean - judged.computing)
    line = line_with(facts, _STARTING)
    started = f"{at(line)}," if line else ""
    return Lost(
        cost,
        judged.of,
        f"Other processes that the script started{started} take "
        f"{use.rest_cores:.1f} of {fmt.several(use.cores, 'core')}: the training waits for a core "
        f"{fmt.part_of_step(cost, judged.of.mean)}.",
        (
            Figure(
                "those processes, cores", round(use.rest_cores, 1), threshold=BUSY_SHARE * use.cores
            ),
            Figure("cores", use.cores, "count"),
            Figure.share("waiting for a core", use.delayed or 0.0),
            Figure("mean step", judged.of.mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line),
        parts=tuple(part.name for part in judged.parts if part.computes != judged.on_device),
    )


OWN_PROCESS = Rule(
    id="own-process",
    when="another process that the script started takes cores from the training",
    explanation=(
        "A process that the script started, such as a log writer or a server, keeps at least a "
        "fifth of the cores busy while threads of the training wait for a core. Often it polls "
        "for work: queue.get() waits without using a core. The cost is the time that the "
        "longest-waiting thread was ready to run but had no core."
    ),
    lost=_own_process,
    limits=Limits(
        0.10, 0.30, "The same limit as for data loader workers that take the training's cores."
    ),
    answer="block in get() or sleep instead of polling, or move the work elsewhere",
)
