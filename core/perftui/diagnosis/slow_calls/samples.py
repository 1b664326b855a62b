"""Work for each sample that is thrown away, by what the file shows."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import SlowCall

ROWS = (
    SlowCall(
        "share-thrown-away",
        "each worker makes all samples, and {line} throws away those of the other workers",
        "decide by its number whether a sample is the worker's own before reading or parsing it, "
        "or give each worker its own files",
        sources.SHARDING,
        "cut.share",
        frames="^",
        where="item",
    ),
    SlowCall(
        "few-kept",
        "{line} keeps only a few of all that this line reads or makes",
        "choose first, and read, decode or make only those",
        sources.FRAMES_KEPT,
        "cut.few",
        frames="^",
        where="item",
    ),
    SlowCall(
        "crop-kept",
        "{line} keeps only a crop of what this line computes for the whole",
        "crop first, and do this to the crop alone",
        sources.CROP_FIRST,
        "cut.part",
        frames="^",
        where="item",
    ),
)
