"""How a model is spread over processes and devices, where that costs more than it must."""

from __future__ import annotations

from perftui.analysis.steps import EXPOSED_COMMUNICATION
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.fact import Facts
from perftui.facts.ranks.collectives import backward_passes
from perftui.facts.settings import Wrapper, settings
from perftui.facts.source.operator_lines import place_in_part
from perftui.facts.step.judged_step import judged_step


def wrapper(facts: Facts, name: str) -> Wrapper | None:
    """The first wrapper of that class; None where none was recorded."""
    known = settings(facts) if facts.run else None
    wrappers = known.wrappers if known else None
    return next((one for one in wrappers or () if one.name == name), None)


def _each_micro_batch(facts: Facts) -> Lost | None:
    judged = judged_step(facts)
    exposed = judged.part(EXPOSED_COMMUNICATION)
    if not exposed:
        return None
    passes = backward_passes(facts)
    if passes.per_step < 1.5 or passes.reducing < 1.5:
        return None
    cost = round(exposed * (1 - 1 / passes.reducing))
    step = judged.of
    return Lost(
        cost,
        step,
        f"Gradients are reduced in {passes.reducing:.0f} backward passes of each step, where "
        f"one would do: {step.part_of(cost)} in collectives.",
        (
            Figure("backward passes a step", round(passes.per_step, 1)),
            Figure("of them with collectives", round(passes.reducing, 1)),
            Figure.share("lost to them", cost / step.mean, EACH_MICRO_BATCH.limits.warning),
        ),
        place=place_in_part(facts, EXPOSED_COMMUNICATION),
        parts=(EXPOSED_COMMUNICATION,),
    )


def _data_parallel(facts: Facts) -> Lost | None:
    found = wrapper(facts, "DataParallel")
    devices = str(found.arguments.get("device_ids")) if found else ""
    count = devices.count(",") + 1 if devices.startswith("[") and devices != "[]" else 0
    if count < 2:
        return None
    return Lost(
        0,
        None,
        f"DataParallel drives {count} GPUs from one process: it copies the model to each GPU in "
        "every step, and one Python process launches all kernels.",
        (Figure("GPUs of one process", count, "count"),),
        share=1.0,
    )


def _unused(facts: Facts) -> Lost | None:
    found = wrapper(facts, "DistributedDataParallel")
    if found is None or found.arguments.get("find_unused_parameters") is not True:
        return None
    return Lost(
        0,
        None,
        "DistributedDataParallel looks for unused parameters after every forward pass "
        "(find_unused_parameters=True).",
        (Figure("find_unused_parameters", "True"),),
        share=0.05,
    )


EACH_MICRO_BATCH = Rule(
    id="reduce-each-micro-batch",
    when="gradients are reduced for every micro-batch, though the optimizer steps once for several",
    explanation=(
        "With gradient accumulation, only the last backward pass before the optimizer step has to "
        "reduce gradients across ranks. Wrap the others in model.no_sync()."
    ),
    lost=_each_micro_batch,
    limits=Limits(0.05, 0.20, "TraceLens reports exposed communication from 5 %."),
    fixes=("ddp-no-sync",),
    answer="no_sync() around all backward passes but the last",
)

DATA_PARALLEL = Rule(
    id="wrong-parallelism",
    when="DataParallel drives several GPUs from one process",
    explanation=(
        "DataParallel copies the model to every GPU in each step, gathers results on the first, "
        "and launches everything from one Python process. DistributedDataParallel, with one "
        "process per GPU, is faster even on one machine."
    ),
    lost=_data_parallel,
    limits=Limits(
        0.5, 1.0, "The TensorBoard plugin advises against it in all cases.", of="of its GPUs"
    ),
    answer="DistributedDataParallel, one process per GPU",
)

UNUSED_PARAMETERS = Rule(
    id="unused-parameters-search",
    when="DistributedDataParallel looks for unused parameters in each step",
    explanation=(
        "find_unused_parameters=True walks the graph after every forward pass and delays the "
        "reduction of gradients. Remove it if every parameter is used, or set static_graph=True "
        "if the graph never changes. Published measurements put its cost at 5 to 10 % of the step."
    ),
    lost=_unused,
    limits=Limits(0.10, 0.20, "Published measurements: 5 to 10 % of the step.", info=0.05),
    fixes=("ddp-all-used",),
    answer="remove find_unused_parameters, or static_graph=True",
)
