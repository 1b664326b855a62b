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
from perftui.fixes.source.edits import Literal
from perftui.fixes.source.loader_arguments import LOADER


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
    several = "several loaders are made, and it is not certain which feeds the training"
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
        why_not = "batches are pinned already"
    elif loader.holds_cuda:
        why_not = "the dataset yields tensors that are on the GPU already, which cannot be pinned"
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
        why_not = "the workers stay already"
    title = "persistent_workers False -> True"
    risks = (Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY)
    return loader_change(loader, title, {"persistent_workers": True}, risks, why_not)


PIN = Fix(
    id="loader-pin",
    what="put batches into page-locked memory, from which copies to the GPU are faster",
    explanation=(
        "Batches are put into page-locked memory by a thread of the loader, so that copies to the "
        "GPU are faster, and can run beside computation where the script copies with "
        "non_blocking=True. That is written as well where a loop is certain to copy batches of "
        "this loader to the GPU."
    ),
    change=_pinned,
)

PERSISTENT = Fix(
    id="loader-persistent",
    what="keep the workers of the loader from one epoch to the next",
    explanation=(
        "The workers stay when an epoch ends, instead of being started anew for the next. They "
        "keep the dataset as it was: what the script changes of it between epochs does not reach "
        "them. Later epochs are shuffled otherwise, as a start of workers draws a random number "
        "too."
    ),
    change=_persistent,
)
