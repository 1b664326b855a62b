"""Fixes of the data loader: pinned memory, workers that stay, and what all of them share."""

from __future__ import annotations

from collections.abc import Mapping

from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from perftui.facts.gpu.gpu import has_gpu
from perftui.fixes.call_source import CallChange
from perftui.fixes.fix import Fix
from perftui.fixes.model import Risk
from perftui.fixes.source.calls import CallSpec
from perftui.fixes.source.loader_arguments import LOADER
from perftui.script.program import Literal


def loader_change(
    loader: LoaderFacts,
    title: str,
    arguments: Mapping[str, Literal],
    risks: tuple[Risk, ...],
    why_not: str,
    spec: CallSpec = LOADER,
) -> CallChange:
    """Give the loader that feeds the training other ``arguments``."""
    where = f"At {loader.source}: " if loader.source else ""
    given = ", ".join(f"{name}={value}" for name, value in arguments.items())
    seen = {"num_workers": loader.num_workers, "pin_memory": loader.pin_memory}
    several = (
        "the script creates several loaders, and it is not certain which one feeds the training"
    )
    return CallChange(
        target="DataLoader",
        arguments=arguments,
        title=title,
        file=loader.file,
        line=loader.line,
        spec=spec,
        advice=f"{where}DataLoader(..., {given})",
        seen={name: value for name, value in seen.items() if value is not None},
        risks=risks,
        why_not=why_not,
        uncertain="" if loader.certain else several,
        others=loader.others,
    )


def _pinned(facts: Facts) -> CallChange | None:
    loader = training_loader(facts)
    if loader is None:
        return None
    why_not = ""
    if has_gpu(facts) is False:
        why_not = "there is no GPU to copy to"
    elif loader.pin_memory:
        why_not = "batches are already pinned"
    elif loader.holds_cuda:
        why_not = "the dataset yields tensors that are already on the GPU, which cannot be pinned"
    title = "pin_memory False -> True"
    return loader_change(loader, title, {"pin_memory": True}, (Risk.MEMORY,), why_not)


def _persistent(facts: Facts) -> CallChange | None:
    loader = training_loader(facts)
    if loader is None:
        return None
    why_not = ""
    if loader.num_workers is None:
        why_not = "it is not known whether the loader has workers"
    elif loader.num_workers == 0:
        why_not = "the loader has no workers"
    elif loader.persistent_workers:
        why_not = "the workers already stay"
    title = "persistent_workers False -> True"
    risks = (Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY)
    return loader_change(loader, title, {"persistent_workers": True}, risks, why_not)


PIN = Fix(
    id="loader-pin",
    what="pin batches in memory, from which copies to the GPU are faster",
    explanation=(
        "A thread of the loader puts batches into pinned (page-locked) memory. Copies to the GPU "
        "are then faster, and overlap with computation if the script copies with "
        "non_blocking=True. The fix adds non_blocking=True where a loop certainly copies batches "
        "of this loader to the GPU."
    ),
    change=_pinned,
    risks=(Risk.MEMORY,),
)

PERSISTENT = Fix(
    id="loader-persistent",
    what="keep the loader's workers from one epoch to the next",
    explanation=(
        "The workers stay alive when an epoch ends instead of restarting for the next. They keep "
        "their copy of the dataset: changes that the script makes to it between epochs do not "
        "reach them. Later epochs are shuffled differently, because starting workers draws a "
        "random number."
    ),
    change=_persistent,
    risks=(Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY),
)
