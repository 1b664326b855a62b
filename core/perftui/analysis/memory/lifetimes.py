"""Which release belongs to which allocation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from perftui.trace.model import NONE, Int64

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Lifetimes:
    """Every block that a list of events saw: row of its allocation and of its release, one of which
    may be missing."""

    first: Int64
    """NONE where it was allocated before the events."""
    last: Int64
    """One behind the events where it was not released."""

    @classmethod
    def of(cls, address: npt.NDArray[Any], allocated: Mask, released: Mask) -> Lifetimes:
        """The blocks of events in their order, each of which does one of both or neither.

        An address that is handed out again without a release ends the block that had it.
        """
        rows = np.flatnonzero(allocated | released)
        rows = rows[np.argsort(address[rows], kind="stable")]
        own, alloc = address[rows], allocated[rows]
        same = np.zeros(len(rows) + 1, np.bool_)
        same[1:-1] = own[1:] == own[:-1]
        following = np.append(rows[1:], len(address))
        ends = np.where(same[1:], following, len(address))
        began = np.append(False, alloc[:-1]) & same[:-1]
        orphans = ~alloc & ~began
        first = np.concatenate([rows[alloc], np.full(int(orphans.sum()), NONE)])
        return cls(first.astype(np.int64), np.concatenate([ends[alloc], rows[orphans]]))
