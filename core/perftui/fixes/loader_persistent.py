"""``loader-persistent``: keep the workers of the loader from one epoch to the next."""

from __future__ import annotations

from perftui.facts.fact import Facts
from perftui.facts.loader import training_loader
from perftui.fixes.loader_option import LoaderFix
from perftui.fixes.model import FixOption, Risk

FIX = "loader-persistent"

_TITLE = "persistent_workers False -> True"

_EXPLANATION = (
    "The workers stay when an epoch ends, instead of being started anew for the next. They keep "
    "the dataset as it was: what the script changes of it between epochs does not reach them. "
    "Later epochs are shuffled otherwise, as a start of workers draws a random number too."
)


def option(facts: Facts) -> FixOption | None:
    """The fix for the loader that feeds the training; None where no loader is known."""
    loader = training_loader(facts)
    if loader is None:
        return None
    fix = LoaderFix(FIX, _TITLE, _EXPLANATION)
    risks = (Risk.ORDER, Risk.RANDOMNESS, Risk.MEMORY)
    return fix.option(facts, loader, refused(facts), {"persistent_workers": True}, risks)


def refused(facts: Facts) -> str:
    """Why this would be wrong or useless here, empty where nothing speaks against it."""
    loader = training_loader(facts)
    if loader is None or loader.num_workers is None:
        return "it is not known whether the loader has workers"
    if loader.num_workers == 0:
        return "the loader has no workers"
    return "the workers stay already" if loader.persistent_workers else ""
