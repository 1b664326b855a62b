"""A directory of many ranks, made once."""

from pathlib import Path

import pytest

from tests.core.diagnosis.test_straggler import computing
from tests.traces.builder import write_ranks

RANKS = 64


@pytest.fixture(scope="session")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 ranks of which the one before the last comes late, and one whose trace is damaged."""
    late = [400 + 2 * (rank % 7) for rank in range(RANKS)]
    late[-2] = 700
    folder = write_ranks(tmp_path_factory.mktemp("ranks"), computing(*late, steps=6))
    damaged = '{"distributedInfo": {"rank": 9, "world_size": 64}, "traceEvents": [!!!]}'
    (folder / "rank9.pt.trace.json").write_text(damaged)
    return folder
