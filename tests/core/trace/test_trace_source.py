"""Parts of a packed file, read again."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perftui.trace.kineto import source as source_module
from perftui.trace.kineto.source import PIECE, Source, State, inflate


def test_reading_far_into_a_file_is_paid_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was not read from its start, as one of which the columns were kept."""
    text = np.random.default_rng(0).integers(32, 90, 3_000_000, dtype=np.uint8).tobytes()
    path = tmp_path / "far.json.gz"
    path.write_bytes(gzip.compress(text, 1))
    monkeypatch.setattr(source_module, "_CHECKPOINT_EVERY", 2 * PIECE)
    pieces: list[bytes] = []

    def counted(*given: Any) -> Iterator[tuple[bytes, State]]:
        for piece, state in inflate(*given):
            pieces.append(piece)
            yield piece, state

    monkeypatch.setattr(source_module, "inflate", counted)
    source = Source(path)
    counts = []
    for offset in (2_900_000, 2_900_000, 1_500_000, 10, 2_999_900):
        pieces.clear()
        assert source.read_at(offset, 100) == text[offset : offset + 100]
        counts.append(len(pieces))
    assert counts[0] >= 10
    assert max(counts[1:]) <= 4
