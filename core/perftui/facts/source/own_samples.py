"""Which samples of the main thread are in the script's own Python, and what is done there."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

import numpy as np

from perftui.facts.fact import Facts, fact
from perftui.facts.source.line_words import WAITING, reports, words_of
from perftui.facts.source.moments import Moments, moments
from perftui.facts.step.steady import Mask
from perftui.run.stack_samples import FORWARD, OPTIMIZER

_OF_TORCH = re.compile(
    r"^(?!torch/utils/tensorboard)(torch\w*|transformers|accelerate|(pytorch_)?"
    r"lightning\w*|fastai|ignite|composer|timm|ultralytics)/"
)
"""Frames of the framework: what the script calls there is not its own Python."""

_ASKED_FOR = re.compile(r"/copy\.py |__deepcopy__|Tensor\.__(format|repr|str)__")
"""Copying a model and writing a tensor out are the script's doing, though tensors do it
themselves."""

_OF_COLLECTIVES = "torch/distributed/"
"""Frames of calls in which a rank waits for the others."""

INSIDE = (FORWARD, OPTIMIZER)
"""Phases that call code of the script."""


def time_by_words(found: Moments, chosen: Mask) -> Counter[str]:
    """Time of ``chosen``, ns, by what is done there."""
    count: Counter[str] = Counter()
    held = found.by_place(np.where(chosen, found.held, 0))
    rows = np.flatnonzero(held)
    columns = [found.places[name][rows].tolist() for name in ("file", "line", "via", "inner")]
    for time, *place in zip(held[rows].tolist(), *columns, strict=True):
        count[words_of(*place)] += time
    return count


@fact
def waiting(facts: Facts) -> float:
    """Share of the steady steps, 0 to 1, in which the script waits by itself: it sleeps, or for a
    subprocess or the network, as far as samples show."""
    found = moments(facts)
    if found is None or not found.covered:
        return 0.0
    count = time_by_words(found, own_samples(found))
    return sum(count[words] for words in WAITING) / found.covered


def calls_no_framework(found: Moments) -> Mask:
    """Samples in the script's own Python, rather than in the framework that it calls."""
    name = "via" if (found.places["via"] != "").any() else "inner"
    own = ~found.matching(_is_of_torch, name) | found.matching(_is_asked_for, "via", "inner")
    # A framework calls loggers and progress bars that the script has asked for.
    own |= found.matching(reports, "inner")
    mask: Mask = own & (found.places["file"] != "")[found.at]
    return mask


@lru_cache(maxsize=4096)
def _is_of_torch(frame: str) -> bool:
    return _OF_TORCH.search(frame) is not None


@lru_cache(maxsize=4096)
def _is_asked_for(frame: str) -> bool:
    return _ASKED_FOR.search(frame) is not None


def in_collectives(found: Moments) -> Mask:
    """Samples outside of phases in calls that exchange data with other ranks."""
    mask: Mask = (found.stage == "") & found.matching(is_of_collectives, "inner", "via")
    return mask


def is_of_collectives(frame: str) -> bool:
    """Whether a frame is of ``torch.distributed``."""
    return frame.startswith(_OF_COLLECTIVES)


def own_samples(found: Moments) -> Mask:
    """Samples in the script's own Python, but for what other rules speak of."""
    outside = found.stage == ""
    mask: Mask = (outside | np.isin(found.stage, INSIDE)) & calls_no_framework(found)
    return mask
