"""What the main thread was doing over the steady steps, by samples of its stack."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from perftui.facts.fact import Facts, fact
from perftui.facts.line_words import WRITING, saves, words_of
from perftui.facts.lines import FEWEST_SAMPLES, LinesByTime, lines_by_time
from perftui.facts.main_thread import stack_samples, steady_held
from perftui.facts.steady import Mask
from perftui.run.stack_samples import BACKWARD, COMPILE, FORWARD, OPTIMIZER, PROFILE, SAVE
from perftui.run.table import Table
from perftui.trace.model import Int64

FEWEST_MOMENTS = 5
"""Samples of one activity below which nothing is said of it: fewer are chance."""

_BY_INNER = tuple(
    (stage, re.compile(marks))
    for stage, marks in (
        (
            COMPILE,
            r"torch/(_dynamo|_inductor|_functorch|_subclasses|fx|_guards|_refs|_decomp|_prims"
            r"|utils/_python_dispatch|utils/_sympy)\b|^(sympy|triton/compiler)/",
        ),
        (SAVE, r"torch/(serialization|distributed/checkpoint/\S+)(\.py)?\b"),
        (PROFILE, r"torch/(profiler/|autograd/profiler)"),
        (OPTIMIZER, r"torch/optim/"),
        (BACKWARD, r"torch/(autograd/(__init__|graph)|_tensor)\.py"),
        (FORWARD, r"torch/nn/modules/"),
    )
)
"""What an innermost frame tells, in runs that were recorded before stages were."""

_SAVES = re.compile(
    r"^(safetensors|orbax|zarr|h5py|joblib/numpy_pickle)/|numpy/lib/(_?npyio|format|_format)"
    r"|\bsave_pretrained$|\bsave_checkpoint$"
)
"""Files and functions that write models otherwise than by ``torch.save``."""

BESIDE = 5
"""Lines before and after the one that saves, in which its file is opened and closed."""

_MOSTLY_SAVES = 0.3
"""Of a line, from which on all of it saves: it also moves tensors to the host."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Samples within the steady steps; columns of ``stacks``, ``held`` and ``stage`` agree."""

    stacks: Table
    held: Int64
    """The time within the steady steps that each stands for, ns."""
    stage: npt.NDArray[np.object_]
    """As the column ``stage`` of stack samples; empty for the script's own code."""

    @property
    def covered(self) -> int:
        """Time of all of them, ns."""
        return int(self.held.sum())

    def lines(self, chosen: Mask) -> LinesByTime:
        """Where the thread was at the ``chosen`` ones."""
        return lines_by_time(self.stacks, np.where(chosen, self.held, 0))

    def share(self, chosen: Mask) -> float:
        """Of the time of all of them, 0 to 1."""
        return int(self.held[chosen].sum()) / self.covered if self.covered else 0.0

    def matching(self, accepts: Callable[[str], bool], *names: str) -> Mask:
        """Those of which a column of ``names`` is accepted."""
        mask = np.zeros(len(self.held), dtype=np.bool_)
        for name in names:
            if name in self.stacks:
                values = self.stacks[name].tolist()
                mask |= np.fromiter(map(accepts, values), np.bool_, len(mask))
        return mask


@fact
def moments(facts: Facts) -> Moments | None:
    """None where too few samples of the steady steps tell."""
    outside, inside = stack_samples(facts)
    stacks, held = (outside, steady_held(facts)) if len(outside) else (inside, inside_held(inside))
    if "stage" not in stacks or not len(stacks):
        return None
    kept = held > 0
    stacks, held = stacks.where(kept), held[kept]
    found = Moments(stacks, held, stages_of(stacks, held))
    every: Int64 = np.maximum(stacks["every"], 1)
    is_enough = len(held) and int((held / every).sum()) >= FEWEST_SAMPLES // 2
    return found if is_enough else None


def inside_held(inside: Table) -> Int64:
    """Samples from inside come in windows only: all of their time counts."""
    return inside["held"] if len(inside) else np.zeros(0, dtype=np.int64)


def stages_of(stacks: Table, held: Int64) -> npt.NDArray[np.object_]:
    """The stage of each sample: as recorded, in older runs as the innermost frame tells."""
    stage: npt.NDArray[np.object_] = stacks["stage"].copy()
    empty = stage == ""
    if "via" not in stacks or not (stacks["via"] != "").any():
        inner = [_stage_of_frame(frame) for frame in stacks["inner"][empty].tolist()]
        stage[empty] = np.array(inner, dtype=object)
        return _with_whole_lines(stacks, held, stage)
    names = ("file", "line", "via", "inner")
    columns = [stacks[name][empty].tolist() for name in names]
    saving = [_saves(*place) for place in zip(*columns, strict=True)]
    stage[np.flatnonzero(empty)[np.array(saving, dtype=np.bool_)]] = SAVE
    return _with_its_file(stacks, stage)


def _with_its_file(stacks: Table, stage: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """Beside lines that save, those that open and close the file."""
    saving = stage == SAVE
    files, lines = stacks["file"].tolist(), stacks["line"].tolist()
    beside = {
        (files[row], lines[row] + offset)
        for row in np.flatnonzero(saving).tolist()
        for offset in range(-BESIDE, BESIDE + 1)
    }
    if not beside:
        return stage
    for row in np.flatnonzero(stage == "").tolist():
        place = files[row], lines[row]
        texts = str(stacks["via"][row]), str(stacks["inner"][row])
        if place in beside and words_of(*place, *texts) == WRITING:
            stage[row] = SAVE
    return stage


def _with_whole_lines(
    stacks: Table, held: Int64, stage: npt.NDArray[np.object_]
) -> npt.NDArray[np.object_]:
    """All samples of a line that saves for a good part of its time."""
    keys = list(zip(stacks["file"].tolist(), stacks["line"].tolist(), strict=True))
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
