"""A remote directory of traces in the app: each rank is copied when it is read or opened."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from perftui.trace.recordings import choose_rank
from perftui.trace.remote import mirror, remote_of
from tests.traces.builder import us, write_ranks
from tests.tui.driving import opened, until, until_shown
from tests.tui.traces import even_steps

URL = "memory://app/traces"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stand-ins of three ranks, of which one is damaged."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = fsspec.filesystem("memory")
    here = tmp_path / "here"
    here.mkdir()
    write_ranks(here, [even_steps(6, compute=us(each)) for each in (900, 2900, 900)])
    damaged = '{"distributedInfo": {"rank": 2, "world_size": 3}, "traceEvents": [!!!]}'
    (here / "rank2.pt.trace.json").write_text(damaged)
    store.put(f"{here}/", "/app/traces/", recursive=True)
    yield mirror(URL)
    store.rm("/app", recursive=True)


async def test_ranks_are_compared_and_opened(folder: Path) -> None:
    chosen = choose_rank(folder)
    async with opened(chosen.path, (160, 40), ranks=chosen.ranks) as (app, pilot):
        await pilot.press("8")
        await until_shown(
            pilot, f"rank 2 cannot be read: {URL}/rank2.pt.trace.json holds no events"
        )
        await until(pilot, lambda: app.rank_traces.table and not app.rank_traces.doing, "all")
        other = folder / "rank1.pt.trace.json"
        assert remote_of(other) is not None
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.snapshot and app.snapshot.source == other, "rank 1")
        assert remote_of(other) is None
