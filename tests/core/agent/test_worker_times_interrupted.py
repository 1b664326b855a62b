"""What a signal handler of the script raises while a batch is counted is the script's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.agent.dataloader.worker_times import (
    LOADER_ATTRIBUTE,
    WorkerPage,
    WorkerTimes,
    _watch_fetcher,
)
from perftui.recorder.loader_workers import WorkerCounts, WorkerPageReader
from perftui.wire.spool import Spool
from perftui.wire.worker_page import FETCH, IDLE
from tests.core.agent.interrupts import interrupted_at_call


@pytest.fixture
def alarm() -> Iterator[None]:
    """A handler that raises, as those that limit a time do."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGUSR1, late)
    yield
    signal.signal(signal.SIGUSR1, before)


class Plain:
    """What a batch is made of: as much of a tensor as is looked at."""

    layout = "strided"
    nbytes = 8


def fetching(spool: Path) -> Any:
    """A fetcher of loader 1 in this process, which is timed."""

    class Fetcher:
        def __init__(self) -> None:
            self.collate_fn = list

        def fetch(self) -> list[Plain]:
            return self.collate_fn([Plain()])

    data = SimpleNamespace(get_worker_info=lambda: None)
    torch = SimpleNamespace(
        Tensor=Plain,
        strided="strided",
        utils=SimpleNamespace(data=data),
        _C=SimpleNamespace(
            _dynamo=SimpleNamespace(eval_frame=None), _len_torch_function_stack=lambda: 0
        ),
    )
    owner: Any = SimpleNamespace(notes=SimpleNamespace(path=spool / "notes-1.jsonl"))
    _watch_fetcher(torch, Fetcher, WorkerTimes(torch, owner, 0))
    fetcher = Fetcher()
    setattr(fetcher, LOADER_ATTRIBUTE, (os.getpid(), 1))
    return fetcher


def page_of(fetcher: Any) -> Any:
    """The page on which its batches are counted."""
    (page,) = (value for value in vars(fetcher).values() if isinstance(value, WorkerPage))
    return page


def counted(spool: Path) -> list[WorkerCounts]:
    """What each page says."""
    found = []
    for path in Spool(spool).worker_pages(os.getpid()):
        reader = WorkerPageReader(path)
        counts = reader.read()
        assert counts is not None
        found.append(counts)
        reader.close()
    return found


@pytest.mark.usefixtures("alarm")
def test_an_alarm_goes_on_to_the_script_and_counting_too(tmp_path: Path) -> None:
    fetcher = fetching(tmp_path)
    fetcher.fetch()
    page = page_of(fetcher)

    def interrupted(_: object) -> int:
        signal.raise_signal(signal.SIGUSR1)
        return 8

    page.batch_bytes = interrupted
    fetcher.collate_fn = lambda _: {}
    with pytest.raises(TimeoutError):
        fetcher.fetch()
    page.batch_bytes = lambda _: 8
    fetcher.fetch()

    (counts,) = counted(tmp_path)
    assert counts.batches == 2


def test_loading_goes_on_where_counting_fails(tmp_path: Path) -> None:
    fetcher = fetching(tmp_path)
    fetcher.fetch()
    page_of(fetcher).batch_bytes = lambda _: 1 // 0
    fetcher.collate_fn = lambda _: {}

    assert (fetcher.fetch(), fetcher.fetch()) == ({}, {})
    (counts,) = counted(tmp_path)
    assert counts.batches == 1


@pytest.mark.parametrize("before", [0, 1])
def test_batches_are_counted_on_wherever_one_was_interrupted(before: int, tmp_path: Path) -> None:
    number, is_over = 0, False
    while not is_over:
        spool = tmp_path / str(number)
        spool.mkdir()
        fetcher = fetching(spool)
        for _ in range(before):
            fetcher.fetch()
        is_over = not interrupted_at_call(number, fetcher.fetch)
        for _ in range(3):
            fetcher.fetch()

        pages = counted(spool)
        assert before + 3 <= sum(page.batches for page in pages) <= before + 4
        assert {page.stage for page in pages} == {IDLE}
        number += 1

    assert number > (2 if before else 6)


def test_a_batch_whose_end_was_not_reported_takes_no_longer_for_it(tmp_path: Path) -> None:
    fetcher = fetching(tmp_path)
    fetcher.fetch()
    page = page_of(fetcher)
    hour = 3600 * 10**9
    page.stage, page.since = FETCH, page.since - hour
    fetcher.fetch()

    (counts,) = counted(tmp_path)
    assert counts.batches == 2
    assert counts.fetch < hour
