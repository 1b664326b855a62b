"""``loader-pin``: put batches into page-locked memory, from which copies to the GPU are faster."""

from __future__ import annotations

from perftui.facts.fact import Facts
from perftui.facts.gpu import has_gpu
from perftui.facts.loader import training_loader
from perftui.fixes.loader_option import LoaderFix
from perftui.fixes.model import FixOption, Risk

FIX = "loader-pin"

_TITLE = "pin_memory False -> True"

_EXPLANATION = (
    "Batches are put into page-locked memory by a thread of the loader, so that copies to the GPU "
    "are faster, and can run beside computation where the script copies with non_blocking=True."
)


def option(facts: Facts) -> FixOption | None:
    """The fix for the loader that feeds the training; None where no loader is known."""
    loader = training_loader(facts)
    if loader is None:
        return None
    fix = LoaderFix(FIX, _TITLE, _EXPLANATION)
    return fix.option(facts, loader, refused(facts), {"pin_memory": True}, (Risk.MEMORY,))


def refused(facts: Facts) -> str:
    """Why pinning would be wrong or useless here, empty where nothing speaks against it."""
    loader = training_loader(facts)
    if has_gpu(facts) is False:
        return "there is no GPU to copy to"
    if loader and loader.pin_memory:
        return "batches are pinned already"
    if loader and loader.holds_cuda:
        return "the dataset yields tensors that are on the GPU already, which cannot be pinned"
    return ""
