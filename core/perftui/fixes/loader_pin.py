"""``loader-pin``: put batches into page-locked memory, from which copies to the GPU are faster."""

from __future__ import annotations

from perftui.diagnosis.evidence import Evidence
from perftui.fixes.loader_option import LoaderFix
from perftui.fixes.model import FixOption, Risk

FIX = "loader-pin"

_TITLE = "pin_memory False -> True"

_EXPLANATION = (
    "Batches are put into page-locked memory by a thread of the loader, so that copies to the GPU "
    "are faster, and can run beside computation where the script copies with non_blocking=True."
)


def option(evidence: Evidence) -> FixOption | None:
    """The fix for the loader that feeds the training; None where no loader is known."""
    loader = evidence.loader
    if loader is None:
        return None
    fix = LoaderFix(FIX, _TITLE, _EXPLANATION)
    return fix.option(evidence, loader, refused(evidence), {"pin_memory": True}, (Risk.MEMORY,))


def refused(evidence: Evidence) -> str:
    """Why pinning would be wrong or useless here, empty where nothing speaks against it."""
    loader = evidence.loader
    if evidence.has_gpu is False:
        return "there is no GPU to copy to"
    if loader and loader.pin_memory:
        return "batches are pinned already"
    if loader and loader.holds_cuda:
        return "the dataset yields tensors that are on the GPU already, which cannot be pinned"
    return ""
