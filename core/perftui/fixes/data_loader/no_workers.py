"""``loader-no-workers``: the training makes batches itself, where workers cost more than that."""

from __future__ import annotations

from dataclasses import replace

from perftui import format as fmt
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.without_workers import step_without_workers
from perftui.facts.fact import Facts
from perftui.facts.step.steps import steady_step
from perftui.fixes.call_source import CallChange
from perftui.fixes.data_loader.loader import loader_change
from perftui.fixes.data_loader.worker_gain import LEAST_GAIN
from perftui.fixes.fix import Fix
from perftui.fixes.model import Risk
from perftui.fixes.source.loader_arguments import WITHOUT_WORKERS


def _none(facts: Facts) -> CallChange | None:
    loader = training_loader(facts)
    if loader is None:
        return None
    title = f"num_workers {loader.num_workers} -> 0" if loader.num_workers else "no workers"
    # What only workers can have is left out with them.
    change = loader_change(
        loader,
        title,
        {"num_workers": 0},
        (Risk.RANDOMNESS, Risk.ORDER),
        _why_not(facts, loader),
        WITHOUT_WORKERS,
    )
    lacks = "without prefetch_factor and other arguments for workers"
    return replace(change, advice=f"{change.advice} {lacks}")


def _why_not(facts: Facts, loader: LoaderFacts) -> str:
    if loader.num_workers is None:
        return "it is not known whether the loader has workers"
    if not loader.num_workers:
        return "the loader has no workers"
    if loader.is_iterable:
        return "the dataset is iterable: without workers its samples come in another order"
    step, then = steady_step.or_none(facts), step_without_workers.or_none(facts)
    if step is None or then is None or step.mean >= LEAST_GAIN * then:
        return ""
    return (
        f"without workers a step would take {fmt.duration(then)} instead of "
        f"{fmt.duration(step.mean)}"
    )


NO_WORKERS = Fix(
    id="loader-no-workers",
    what="make batches in the training process, without handing them over",
    explanation=(
        "The training process makes each batch itself: nothing is packed, sent or unpacked. "
        "Samples stay the same, and so does their order in the first epoch; if workers stayed "
        "between epochs, later epochs are shuffled differently. Random augmentation draws "
        "different values, now from the training's own random state. Changes that the dataset "
        "makes to itself persist."
    ),
    change=_none,
    risks=(Risk.RANDOMNESS, Risk.ORDER),
)
