"""What each worker of a data loader counts, and that loaders do not notice."""

import json
import os
import signal
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
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
from perftui.recorder.loader_workers import PageHeader, WorkerCounts, WorkerPageReader
from perftui.wire.spool import Spool
from perftui.wire.worker_page import FETCH, IDLE, RECORD_OFFSET
from tests.core.agent.interrupts import interrupted_at_call

pytestmark = pytest.mark.subprocess

LOADERS = """
import hashlib, json, os, sys, time, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

class Map(Dataset):
    def __len__(self):
        return 16
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.rand(10), index

class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        first, every = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, 16, every):
            yield torch.rand(10), index

def collate(samples):
    time.sleep(0.005)
    return torch.utils.data.default_collate(samples)

def main():
    torch.manual_seed(0)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for kind, epochs, arguments in json.loads(sys.argv[1]):
        data = Stream() if kind == "stream" else Map()
        shuffle = None if kind == "stream" else True
        loader = DataLoader(data, 4, shuffle, collate_fn=collate, **arguments)
        for epoch in range(epochs):
            for x, index in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
                seen += [index.tolist(), x.sum().item()]
    weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(seen, hashlib.sha256(weights + torch.get_rng_state().numpy().tobytes()).hexdigest())

if __name__ == "__main__":
    main()
"""

BATCH = 4 * 10 * 4 + 4 * 8
"""Bytes of four samples: ten floats and an index."""

MS = 1_000_000


@dataclass(frozen=True)
class Page:
    header: PageHeader
    counts: WorkerCounts


def pages(run: Any) -> list[Page]:
    (ring,) = run.spool.rings()
    found = []
    for path in run.spool.worker_pages(int(ring.name.removeprefix("ring-"))):
        reader = WorkerPageReader(path)
        counts = reader.read()
        assert counts is not None
        found.append(Page(reader.header, counts))
        reader.close()
    return found


def served(run: Any) -> dict[int, int]:
    """The loader of each worker that the training has noted."""
    notes = run.notes("loader")
    return {pid: note["id"] for note in notes for pid in note.get("workers", [])}


@pytest.mark.slow
def test_every_worker_counts_its_batches_and_their_time(unnoticed: Any) -> None:
    workers = {"num_workers": 2}
    loaders = [
        ["map", 2, {}],
        ["map", 2, workers],
        ["map", 2, {**workers, "persistent_workers": True}],
        ["stream", 1, workers],
        ["stream", 1, {}],
    ]
    watched = unnoticed(LOADERS, json.dumps(loaders))

    assert watched.code == 0
    found, loader_of = pages(watched), served(watched)
    batches: dict[tuple[int, int], list[int]] = {}
    for page in found:
        loader = page.header.loader if page.header.worker < 0 else loader_of[page.header.pid]
        batches.setdefault((loader, page.header.worker), []).append(page.counts.batches)
    assert batches == {
        (1, -1): [8],
        # Workers that are started anew each epoch have a page of their own.
        (2, 0): [2, 2],
        (2, 1): [2, 2],
        (3, 0): [4],
        (3, 1): [4],
        (4, 0): [2],
        (4, 1): [2],
        (5, -1): [4],
    }
    for page in found:
        counts = page.counts
        assert (counts.sized, counts.bytes) == (counts.batches, counts.batches * BATCH)
        assert counts.collate >= 5 * MS * counts.batches
        is_stream = loader_of.get(page.header.pid, page.header.loader) > 3
        assert counts.fetch >= (0 if is_stream else 4 * 2 * MS * counts.batches)
        assert counts.stage == IDLE
    assert watched.notes("error") == watched.notes("warning") == []


@pytest.mark.slow
def test_brief_batches_are_counted_in_full_and_stored_once(train: Any) -> None:
    source = LOADERS.replace("time.sleep(0.002)", "time.sleep(0.0001)").replace("0.005", "0.0003")
    watched = train(source, json.dumps([["map", 8, {}]]))

    assert (watched.code, watched.notes("warning")) == (0, [])
    (page,) = pages(watched)
    counts, batches = page.counts, 8 * 4
    assert (counts.batches, counts.sized, counts.bytes) == (batches, batches, batches * BATCH)
    assert counts.fetch >= 4 * 0.1 * MS * batches
    assert counts.collate >= 0.3 * MS * batches
    waits = sum(wait.duration for wait in watched.of_kind("input_wait"))
    starts = sum(start.duration for start in watched.of_kind("loader_start"))
    assert counts.fetch + counts.collate < waits + starts
    assert counts.stage == IDLE
    (ring,) = watched.spool.rings()
    (path,) = watched.spool.worker_pages(int(ring.name.removeprefix("ring-")))
    (stored,) = struct.unpack_from("<q", path.read_bytes(), RECORD_OFFSET)
    # Once when the page was begun; a batch of which each stage is stored makes four.
    assert 1 + batches <= stored < 1 + 4 * batches


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_are_known_however_they_are_started(train: Any, method: str) -> None:
    arguments = {"num_workers": 1, "multiprocessing_context": method}
    # Spawned workers start as this process did.
    watched = train(LOADERS, json.dumps([["map", 1, arguments]]), fresh=True)

    (page,) = pages(watched)
    assert (page.header.worker, page.counts.batches) == (0, 4)
    assert served(watched) == {page.header.pid: 1}
    assert len(watched.spool.rings()) == 1


FAILING = """
import os, sys, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Broken(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, index):
        child = os.fork()
        if not child:
            # A grandchild that fetches by itself counts nothing on the page of the worker.
            next(iter(DataLoader([1, 2])))
            os._exit(0)
        os.waitpid(child, 0)
        if index == 5:
            sys.exit(3) if sys.argv[1] == "exit" else 1 / 0
        return torch.ones(2)

model = nn.Linear(2, 1)
loader = DataLoader(Broken(), 2, num_workers=1, collate_fn=lambda samples: torch.stack(samples))
try:
    for x in loader:
        model(x).sum().backward()
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exit", "raise"])
def test_a_worker_that_fails_fails_as_it_would_and_keeps_its_counts(train: Any, way: str) -> None:
    alone = train(FAILING, way, agent=False)
    watched = train(FAILING, way)

    assert (watched.code, watched.out) == (alone.code, alone.out)
    (page,) = pages(watched)
    assert (page.header.worker, page.counts.batches, page.counts.bytes) == (0, 2, 32)


NO_ROOM = """
import os, pathlib
real = os.posix_fallocate
def full(file, *args):
    if "loader-" in os.readlink(f"/proc/self/fd/{file}"):
        raise OSError(28, "No space left on device")
    return real(file, *args)
os.posix_fallocate = full
"""


@pytest.mark.slow
def test_without_room_for_a_page_the_training_goes_on_and_it_is_said(unnoticed: Any) -> None:
    loaders = json.dumps([["map", 1, {}], ["map", 1, {"num_workers": 1}]])
    watched = unnoticed(NO_ROOM + LOADERS, loaders)

    assert watched.code == 0
    assert pages(watched) == []
    assert watched.step_kinds == ["train"] * 8
    # The training and the worker, which each tried.
    assert ["No space" in note["message"] for note in watched.notes("warning")] == [True] * 2


SIZES = """
import collections, json, numpy, torch
from perftui.agent.dataloader.worker_times import batch_bytes

class Guarded(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        raise AssertionError("code of the script ran")

class Lazy(dict):
    def values(self):
        raise AssertionError("code of the script ran")

Pair = collections.namedtuple("Pair", "x y")
ones = torch.ones(3)
batches = [
    ones,
    [ones, (ones, {"label": 3, "name": "cat"}), None],
    Pair(ones, torch.zeros(2, dtype=torch.uint8)),
    collections.UserDict(x=ones),
    torch.nn.Parameter(ones),
    ones.as_subclass(Guarded),
    Lazy(x=ones),
    numpy.zeros(5, dtype=numpy.int16),
    b"picture",
    [1] * 10,
    torch.eye(3).to_sparse(),
    numpy.array([object()]),
    [ones, object()],
    [ones] * 1000,
]
print(json.dumps([batch_bytes(torch, batch) for batch in batches]))
"""


def test_bytes_of_a_batch_are_counted_or_unknown(train: Any) -> None:
    sizes = json.loads(train(SIZES, agent=False).out)
    assert sizes == [12, 24, 14, 12, 12, 12, 12, 10, 7, 0, -1, -1, -1, -1]


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
            _dynamo=SimpleNamespace(eval_frame=None), DisableTorchFunction=nullcontext
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
