"""What the main thread did over the steady steps, from samples of its stack."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import sums
from perftui.facts.fact import Facts, fact
from perftui.facts.script.looks import slowed
from perftui.facts.source.lines import (
    FEWEST_SAMPLES,
    WAITING,
    WRITING,
    LinesByTime,
    lines_by_time,
    reports,
    sampled,
    saves,
    words_of,
)
from perftui.run.columns import BACKWARD, COMPILE, FORWARD, OPTIMIZER, PROFILE, SAVE
from perftui.run.table import Table
from perftui.trace.model import Int64, Mask

Text = npt.NDArray[np.object_]

_PLACE = ("file", "line", "function", "inner", "via", "stage")

FEWEST_MOMENTS = 5
"""Fewest samples for an activity to be known: fewer are chance."""

MOSTLY_OTHERS = 2.0
"""Multiple of the noted calls' time from which samples of such work are of calls not noted."""

_BY_INNER = tuple(
    (stage, re.compile(marks))
    for stage, marks in (
        (
            COMPILE,
            r"torch/(_dynamo/(?!eval_frame)|_inductor|_functorch|_subclasses"
            r"|fx/(?!traceback|graph_module)|_guards|_refs|_decomp|_prims"
            r"|utils/_python_dispatch|utils/_sympy)\b|^(sympy|triton/compiler)/",
        ),
        (SAVE, r"torch/(serialization|distributed/checkpoint/\S+)(\.py)?\b"),
        (PROFILE, r"torch/(profiler/|autograd/profiler)"),
        (OPTIMIZER, r"torch/optim/"),
        (BACKWARD, r"torch/(autograd/(__init__|graph)|_tensor)\.py"),
        (FORWARD, r"torch/nn/modules/"),
    )
)
"""Stages by the innermost frame, for runs recorded before samples had stages."""

_SAVES = re.compile(
    r"^(safetensors|orbax|zarr|h5py|joblib/numpy_pickle)/(?!.*(load|read|open|__get))"
    r"|numpy/lib/_?(npyio|format)\S* \S*(save|write)|\bsave_pretrained$|\bsave_checkpoint$"
)
"""Files and functions that write models other than by ``torch.save``, but not those that read with
the same libraries."""

BESIDE = 5
"""Lines before and after a saving line, in which its file is opened and closed."""

_MOSTLY_SAVES = 0.3
"""Share of a line's time from which all of it is saving: it also moves tensors to the host."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Samples, each at one of ``places``: few places come again and again. ``at``, ``time`` and
    ``held`` have an entry for each sample."""

    places: Table
    """Columns of stack samples about the place, and ``every``; each place once."""
    stages: Text
    """Stage of each place, as in stack samples; empty for the script's own code."""
    at: Int64
    time: Int64
    """When each sample was first seen at its place, ns."""
    held: Int64
    """ns that the sample stands for."""
    length: Int64
    """ns until the thread was seen elsewhere: at least ``held``."""

    @property
    def stage(self) -> Text:
        """Stage of each sample; empty for the script's own code."""
        return self.stages[self.at]

    @property
    def covered(self) -> int:
        """Total time of all samples, ns."""
        return int(self.held.sum())

    def by_place(self, held: Int64) -> Int64:
        """Time of each place, ns, if samples stand for ``held``."""
        return sums(self.at, held, len(self.stages))

    def lines(self, chosen: Mask, held: Int64 | None = None) -> LinesByTime:
        """Where the thread was at the ``chosen`` samples."""
        time = np.where(chosen, self.held if held is None else held, 0)
        return lines_by_time(self.places, self.by_place(time))

    def share(self, chosen: Mask) -> float:
        """Share of the ``chosen`` samples in the total time, 0 to 1."""
        return int(self.held[chosen].sum()) / self.covered if self.covered else 0.0

    def count(self, chosen: Mask) -> int:
        """Estimated number of ``chosen`` samples: an entry may stand for several."""
        return round(float((self.held / self.places["every"][self.at])[chosen].sum()))

    def matching(self, accepts: Callable[[str], bool], *names: str) -> Mask:
        """Samples for which any column of ``names`` is accepted."""
        mask = np.zeros(len(self.stages), dtype=np.bool_)
        for name in names:
            mask |= np.fromiter(map(accepts, self.places[name].tolist()), np.bool_, len(mask))
        return mask[self.at]


@fact
def moments(facts: Facts) -> Moments | None:
    """Samples of the steady steps; None if there are too few."""
    stacks, time = sampled(facts)
    if "stage" not in stacks or not len(stacks):
        return None
    traces = {one.place and (one.place.file, one.name) for one in slowed(facts)} - {None}
    if traces:
        # Called for each line, it is none of the work of the line or phase that it interrupts.
        places = zip(stacks["file"], stacks["function"], strict=True)
        stage = stacks["stage"].copy()
        stage[[place in traces for place in places]] = PROFILE
        stacks = Table(stacks.columns, {**stacks.values, "stage": stage})
    result = moments_of(stacks, time)
    return result if result.count(result.held > 0) >= FEWEST_SAMPLES // 2 else None


def moments_of(stacks: Table, held: Int64) -> Moments:
    """The rows of ``stacks`` with positive time ``held``."""
    rows = held > 0
    unknown: Text = np.full(len(stacks), "", dtype=object)
    columns = [stacks.values.get(name, unknown)[rows].tolist() for name in _PLACE]
    every: Int64 = np.maximum(stacks["every"][rows], 1)
    codes: dict[tuple[Any, ...], int] = {}
    keys = zip(*columns, every.tolist(), strict=True)
    at = [codes.setdefault(key, len(codes)) for key in keys]
    values: dict[str, npt.NDArray[Any]] = {}
    for number, name in enumerate((*_PLACE, "every")):
        kind: type = np.int64 if name in ("line", "every") else object
        values[name] = np.array([key[number] for key in codes], dtype=kind)
    places = Table((), values)
    code: Int64 = np.array(at, dtype=np.int64)
    totals = sums(code, held[rows], len(codes))
    times = stacks["time"][rows], held[rows], stacks["held"][rows]
    return Moments(places, _stages_of(places, totals), code, *times)


def _stages_of(places: Table, held: Int64) -> Text:
    """Stages of the places as recorded; in older runs by the innermost frame."""
    stage: Text = places["stage"].copy()
    empty = stage == ""
    if not (places["via"] != "").any():
        stage[empty] = [_stage_of_frame(frame) for frame in places["inner"][empty].tolist()]
        return _with_whole_lines(places, held, stage)
    columns = [places[name][empty].tolist() for name in ("file", "line", "via", "inner")]
    saving = [_saves(*place) for place in zip(*columns, strict=True)]
    stage[np.flatnonzero(empty)[np.array(saving, dtype=np.bool_)]] = SAVE
    # The lines around a saving one open and close its file.
    files, lines = places["file"].tolist(), places["line"].tolist()
    beside = {
        (files[row], lines[row] + offset)
        for row in np.flatnonzero(stage == SAVE).tolist()
        for offset in range(-BESIDE, BESIDE + 1)
    }
    for row in np.flatnonzero(stage == "").tolist() if beside else ():
        place = files[row], lines[row]
        texts = str(places["via"][row]), str(places["inner"][row])
        if place in beside and words_of(*place, *texts) == WRITING:
            stage[row] = SAVE
    return stage


def _with_whole_lines(places: Table, held: Int64, stage: Text) -> Text:
    """Stages with the whole of each line that saves for much of its time."""
    keys = list(zip(places["file"].tolist(), places["line"].tolist(), strict=True))
    totals: dict[tuple[str, int], list[int]] = {}
    for key, time, is_save in zip(keys, held.tolist(), (stage == SAVE).tolist(), strict=True):
        of_line = totals.setdefault(key, [0, 0])
        of_line[0] += time
        of_line[1] += time * is_save
    saving = {key for key, (all_, save) in totals.items() if key[0] and save > _MOSTLY_SAVES * all_}
    stage[np.fromiter((key in saving for key in keys), np.bool_, len(stage))] = SAVE
    return stage


@lru_cache(maxsize=4096)
def _stage_of_frame(inner: str) -> str:
    return next((stage for stage, marks in _BY_INNER if marks.search(inner)), "")


@lru_cache(maxsize=4096)
def _saves(file: str, line: int, via: str, inner: str) -> bool:
    return any(_SAVES.search(frame) for frame in (via, inner)) or saves(file, line)


_OF_TORCH = re.compile(
    r"^(?!torch/utils/tensorboard)(torch\w*|transformers|accelerate|(pytorch_)?"
    r"lightning\w*|fastai|ignite|composer|timm|ultralytics)/"
)
"""Frames of the framework: what the script calls there is not its own Python."""

_ASKED_FOR = re.compile(r"/copy\.py |__deepcopy__|Tensor\.__(format|repr|str)__")
"""Frames the script causes, though tensors run them: copying a model, printing a tensor."""

_OF_COLLECTIVES = "torch/distributed/"
"""Frames of calls in which a rank waits for the others."""

INSIDE = (FORWARD, OPTIMIZER)
"""Phases that call code of the script."""


def time_by_words(stacks: Moments, chosen: Mask) -> Counter[str]:
    """Time of the ``chosen`` samples, ns, by activity."""
    count: Counter[str] = Counter()
    times = stacks.by_place(np.where(chosen, stacks.held, 0))
    rows = np.flatnonzero(times)
    columns = [stacks.places[name][rows].tolist() for name in ("file", "line", "via", "inner")]
    for time, *place in zip(times[rows].tolist(), *columns, strict=True):
        count[words_of(*place)] += time
    return count


@fact
def waiting(facts: Facts) -> float:
    """Share of the steady steps, 0 to 1, in which the script itself sleeps, or waits for a
    subprocess or the network, as far as samples show."""
    stacks = moments(facts)
    if stacks is None or not stacks.covered:
        return 0.0
    count = time_by_words(stacks, own_samples(stacks))
    return sum(count[words] for words in WAITING) / stacks.covered


def calls_no_framework(stacks: Moments) -> Mask:
    """Samples in the script's own Python, not in the framework that it calls."""
    name = "via" if (stacks.places["via"] != "").any() else "inner"
    own = ~stacks.matching(partial(_matches, _OF_TORCH), name)
    own |= stacks.matching(partial(_matches, _ASKED_FOR), "via", "inner")
    # A framework calls loggers and progress bars that the script requested.
    own |= stacks.matching(reports, "inner")
    result: Mask = own & (stacks.places["file"] != "")[stacks.at]
    return result


@lru_cache(maxsize=8192)
def _matches(marks: re.Pattern[str], frame: str) -> bool:
    return marks.search(frame) is not None


def in_collectives(stacks: Moments) -> Mask:
    """Samples outside phases in calls that exchange data with other ranks."""
    result: Mask = (stacks.stage == "") & stacks.matching(is_of_collectives, "inner", "via")
    return result


def is_of_collectives(frame: str) -> bool:
    """Whether a frame is of ``torch.distributed``."""
    return frame.startswith(_OF_COLLECTIVES)


def own_samples(stacks: Moments) -> Mask:
    """Samples in the script's own Python, except what other rules report."""
    outside = stacks.stage == ""
    result: Mask = (outside | np.isin(stacks.stage, INSIDE)) & calls_no_framework(stacks)
    return result
