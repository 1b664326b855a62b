"""How much of rows of token ids is padding; they are bytes, and no operator of torch is used.

Rows that are no text must not pass for padded text: tables of categories, images, one-hot rows.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import NamedTuple

FEWEST_VALUES = 8
"""Different values that text has at least, padding aside; fewer are flags or classes."""

MOST_ALIKE = 0.75
"""Share of padded rows that end at the same place, beyond which it is a property of the columns:
texts differ in length, a table has the same empty columns in most rows."""

MOST_CHECKED = 1 << 12
"""Tokens outside padding that are looked at one by one: 0.1 us each."""

TYPES = {4: "i", 8: "q"}
"""Codes of ``array`` by the bytes of an integer."""

Rows = list[bytes]


class Padding(NamedTuple):
    """Padding at the end of each row, or at the beginning of each."""

    rows: int
    tokens: int
    padded: int
    """Of the tokens."""
    spare: int
    """Of those padded, in columns where all rows are: cutting the batch to its longest row ends
    them."""


def padding_of_ids(rows: Rows, size: int) -> Padding:
    """Padding of ``rows`` of one length, integers of ``size`` bytes: the longest run at the end of
    a row, or else at the beginning, of one value that is the same in all rows with such a run."""
    ends = _runs(rows, size, is_left=False)
    begins = _runs(rows, size, is_left=True)
    runs, is_left = (begins, True) if sum(begins) > sum(ends) else (ends, False)
    if not _is_text(rows, size, runs, is_left=is_left):
        runs = [0] * len(rows)
    return _padding(rows, size, runs)


def padding_of_mask(rows: Rows, size: int) -> Padding | None:
    """Padding as an attention mask shows it, of zeros and ones in ``size`` bytes: zeros at the end
    of rows that begin with ones. None where ``rows`` are none."""
    zero, one = bytes(size), (1).to_bytes(size, "little")
    runs = [_run(row, size, zero, is_left=False) for row in rows]
    parts = zip(rows, runs, strict=True)
    if any(row[: len(row) - run * size] != one * (len(row) // size - run) for row, run in parts):
        return None
    return None if any(run * size == len(rows[0]) for run in runs) else _padding(rows, size, runs)


def _padding(rows: Rows, size: int, runs: list[int]) -> Padding:
    count = len(rows)
    return Padding(count, count * len(rows[0]) // size, sum(runs), count * min(runs))


def _runs(rows: Rows, size: int, *, is_left: bool) -> list[int]:
    """How many equal values each row has at one side, 0 for a single one; all 0 where these values
    differ between rows."""
    outer = [row[:size] if is_left else row[-size:] for row in rows]
    inner = [row[size : 2 * size] if is_left else row[-2 * size : -size] for row in rows]
    pairs = list(zip(rows, outer, inner, strict=True))
    values = {value for _, value, beside in pairs if value == beside}
    if len(values) != 1:
        return [0] * len(rows)
    return [
        _run(row, size, value, is_left=is_left) if value == beside else 0
        for row, value, beside in pairs
    ]


def _run(row: bytes, size: int, value: bytes, *, is_left: bool) -> int:
    """The length of the run of ``value`` at one side, found by halving: a run is also one of every
    smaller length."""
    length = len(row) // size
    whole = value * length
    least, most = 0, length
    while least < most:
        middle = (least + most + 1) // 2
        side = row[: middle * size] if is_left else row[(length - middle) * size :]
        if side == whole[: middle * size]:
            least = middle
        else:
            most = middle - 1
    return least


def _is_text(rows: Rows, size: int, runs: list[int], *, is_left: bool) -> bool:
    """Whether rows with these runs look like texts of different lengths."""
    padded = [run for run in runs if run]
    if not padded or Counter(padded).most_common(1)[0][1] > MOST_ALIKE * len(padded):
        return False
    at = runs.index(padded[0])
    (pad,) = array(TYPES[size], rows[at][:size] if is_left else rows[at][-size:])
    parts = zip(rows, runs, strict=True)
    texts = (row[run * size :] if is_left else row[: len(row) - run * size] for row, run in parts)
    kept = array(TYPES[size], b"".join(texts)[: MOST_CHECKED * size])
    # Where a text ends with the value that pads it, there is one more in each row.
    strays = kept.count(pad) if pad >= 0 else len(kept)
    return strays <= len(rows) and len(set(kept)) >= FEWEST_VALUES and min(kept) >= 0
