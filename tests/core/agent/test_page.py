"""The compiled page counts what the one in Python counts."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.dataloader.worker_times import batch_bytes
from perftui.agent.native import IS_COMPILED, CompiledPage
from perftui.agent.native.plain import PlainPage
from perftui.wire.worker_page import COLLATE, FETCH, IDLE, RECORD

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the page is not compiled here")

STRIDED, SPARSE = object(), object()


class Tensor:
    """As much of one as is looked at."""

    def __init__(self, nbytes: int, layout: object = STRIDED) -> None:
        self.nbytes, self.layout = nbytes, layout

    def numel(self) -> int:
        return self.nbytes

    def element_size(self) -> int:
        return 1


class Odd(Tensor):
    """A subclass, which may run code of the script."""


class NoTorchFunction:
    """Stands for torch's context of that name."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


TORCH = SimpleNamespace(
    Tensor=Tensor,
    strided=STRIDED,
    _C=SimpleNamespace(
        DisableTorchFunctionSubclass=NoTorchFunction, DisableTorchFunction=NoTorchFunction
    ),
)


def page_of(kind: type[Any]) -> tuple[Any, ctypes.Array[ctypes.c_char]]:
    memory = (ctypes.c_char * RECORD.size)()
    page = kind()
    page.batch_bytes = lambda batch: batch_bytes(TORCH, batch)
    page.address = ctypes.addressof(memory)
    return page, memory


sizes = st.integers(0, 1 << 40)
tensors = st.one_of(st.builds(Tensor, sizes), st.just(Tensor(5, SPARSE)))
leaves = st.one_of(tensors, tensors, tensors, st.binary(max_size=9), st.integers(), st.text())
batches = st.one_of(
    leaves,
    st.lists(tensors, max_size=5),
    st.lists(tensors, max_size=5).map(tuple),
    st.lists(leaves, max_size=5),
    st.dictionaries(st.text(max_size=3), st.lists(tensors, max_size=3), max_size=3),
    st.integers(250, 260).map(lambda n: [Tensor(3)] * n),
    st.just([Tensor(1), object()]),
)
STAGES = {"idle": IDLE, "fetch": FETCH, "collate": COLLATE}
TURNS = [(name, whose) for name in ("enter", "leave") for whose in ("one", "other")]
events = st.one_of(st.sampled_from(sorted(STAGES)), st.sampled_from(TURNS), batches)


@given(st.lists(events, max_size=20), st.booleans())
def test_both_pages_tell_the_same(played: list[Any], may_be_brief: bool) -> None:
    told = []
    for kind in (CompiledPage, PlainPage):
        page, memory = page_of(kind)
        page.may_be_brief = may_be_brief
        seen = []
        for event in played:
            answer = None
            if isinstance(event, str) and event in STAGES:
                page.mark(STAGES[event])
            elif event in TURNS:
                name, whose = event
                answer = getattr(page, name)(whose)
            else:
                page.count(event)
            record = RECORD.unpack(memory.raw)
            assert record[0] == record[9] == page.number
            assert record[4] >= 0
            assert record[5] >= 0
            # Which time passes is a matter of the clock.
            seen.append((*record[:4], record[7], page.is_brief, page.stage, answer))
        told.append(seen)

    assert told[0] == told[1]


@pytest.mark.parametrize("kind", [CompiledPage, PlainPage])
def test_each_stage_has_its_time(kind: type[Any]) -> None:
    page, memory = page_of(kind)
    page.mark(FETCH)
    began = page.since
    page.mark(COLLATE)
    collating = page.since
    page.count([Tensor(7), Tensor(8)])

    assert (page.began, page.fetch) == (began, collating - began)
    assert page.collate == page.since - collating
    squares = ((page.since - began) // 1000) ** 2
    record = (4, 1, 1, 15, page.fetch, page.collate, squares, IDLE, page.since, 4)
    assert RECORD.unpack(memory.raw) == record


@pytest.mark.parametrize("kind", [CompiledPage, PlainPage])
def test_an_error_in_the_sizes_is_passed_on(kind: type[Any]) -> None:
    page, _ = page_of(kind)
    page.batch_bytes = lambda _: 1 // 0

    with pytest.raises(ZeroDivisionError):
        page.count(object())
    assert page.batches == 0


@pytest.mark.parametrize("kind", [CompiledPage, PlainPage])
def test_nothing_is_written_without_an_address(kind: type[Any]) -> None:
    page, memory = page_of(kind)
    page.address = 0
    page.mark(FETCH)
    page.count([Odd(4)])

    assert (page.batches, page.number) == (1, 0)
    assert memory.raw == bytes(RECORD.size)


def test_a_stage_is_a_number() -> None:
    page, memory = page_of(CompiledPage)

    with pytest.raises(TypeError):
        page.mark("fetch")
    assert memory.raw == bytes(RECORD.size)


@pytest.mark.parametrize("kind", [CompiledPage, PlainPage])
def test_one_batch_is_counted_at_a_time(kind: type[Any]) -> None:
    page, memory = page_of(kind)
    one, other = object(), object()
    assert page.enter(one)
    assert not page.enter(other)
    page.leave(other)
    assert page.stage == FETCH
    page.leave(one)

    assert RECORD.unpack(memory.raw)[6] == page.stage == IDLE
    assert page.enter(other)
    page.forget()
    assert page.enter(one)
