"""Cells of one bar, shared among the parts of a whole."""

from __future__ import annotations

from collections.abc import Sequence


def apportion(values: Sequence[int], cells: int) -> list[int]:
    """``cells`` in proportion to ``values``: at least one for each non-zero one, largest first."""
    largest = sorted((i for i, v in enumerate(values) if v > 0), key=lambda i: -values[i])
    shares = [0] * len(values)
    for index in largest[:cells]:
        shares[index] = 1
    if cells == sum(shares) or not largest:
        return shares
    # What is left goes to the parts furthest below their exact share, one cell at a time.
    total = sum(values)
    exact = [value * cells for value in values]
    for index, value in enumerate(exact):
        shares[index] = max(shares[index], value // total)
    while (excess := sum(shares) - cells) != 0:
        step = -1 if excess > 0 else 1
        movable = [i for i, v in enumerate(values) if v > 0 and shares[i] + step >= 1]
        best = max(movable, key=lambda i: step * (exact[i] - shares[i] * total))
        shares[best] += step
    return shares
