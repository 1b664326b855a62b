"""Runs that were recorded with a GPU, to be opened where there is none.

By ``record.py`` on an H100 80GB HBM3 with driver 580.159, CUDA 13.0, PyTorch 2.11, Python 3.12."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from perftui.run.reader import RankSnapshot, RunReader
from tests.gpu.record import RUNS
from tests.gpu.recorded import Recorded


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """A function that unpacks the run of a name, once."""

    @cache
    def unpacked(name: str) -> Recorded:
        root = tmp_path_factory.mktemp(name)
        with tarfile.open(RUNS / f"{name}.tar.xz") as archive:
            archive.extractall(root, filter="data")
        return Recorded(root, _rank(root))

    return unpacked


def _rank(root: Path) -> RankSnapshot:
    (rank,) = RunReader(root).poll().ranks
    return rank
