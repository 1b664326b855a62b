"""Work for each sample that is thrown away, by what the file shows."""

from __future__ import annotations

from perftui.diagnosis.slow_calls import sources
from perftui.diagnosis.slow_calls.row import EACH, SlowCall

ROWS = (
    SlowCall(
        "result-unread",
        "{line} computes {x}, which nothing reads afterwards",
        "leave that out",
        sources.UNREAD,
        "unread.never",
        frames="^",
        where=EACH,
    ),
    SlowCall(
        "last-result-read",
        "{line} computes {x} in each turn of its loop, of which line {it} reads only the last",
        "compute it once, after the loop",
        sources.LAST_READ,
        "unread.last",
        frames="^",
        where=EACH,
    ),
    SlowCall(
        "result-read-rarely",
        "{line} computes {x} each time, but it is only read if the condition of line {it} holds",
        "compute it there",
        sources.RARELY_READ,
        "unread.rare",
        frames="^",
        where=EACH,
    ),
    SlowCall(
        "searched-in-loop",
        "{line} goes through {it} from the beginning each time, to find one",
        "keep a dict, or the cumulative sums of the lengths (np.cumsum), made once in __init__, "
        "and look it up there (bisect)",
        sources.SCANNED,
        "search.kept",
        frames="^",
        where="item step",
    ),
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
