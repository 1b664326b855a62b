"""``loader-pin``: put batches into page-locked memory, from which copies to the GPU are faster."""

from __future__ import annotations

from perftui.diagnosis.evidence import Evidence
from perftui.fixes.loader_source import loader_change
from perftui.fixes.model import FixOption, Risk
from perftui.run.manifest import Override

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
    refusal = refused(evidence)
    if refusal:
        return FixOption(
            FIX, _TITLE, _EXPLANATION, why_not=refusal, file=loader.file, line=loader.line
        )
    arguments = {"pin_memory": True}
    change = loader_change(evidence, arguments)
    where = f"At {loader.source}: " if loader.source else ""
    return FixOption(
        FIX,
        _TITLE,
        _EXPLANATION,
        (Risk.MEMORY,),
        Override("DataLoader", dict(arguments), loader.file, loader.line, FIX),
        change.patch,
        change.why_not,
        f"{where}DataLoader(..., pin_memory=True)",
        loader.file,
        loader.line,
    )


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
