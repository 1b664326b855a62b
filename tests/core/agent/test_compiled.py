"""The library is one for every Python from 3.10 on, whichever it was compiled with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import perftui.agent
from perftui.agent.native import IS_COMPILED, CompiledFastPath, CompiledPage
from perftui.wire.worker_page import COLLATE

SOURCES = sorted(Path(perftui.agent.__file__).parent.rglob("*.c"))
ALWAYS_THERE = (True, False, None)
TIMES = 2000


@pytest.mark.skipif(not IS_COMPILED, reason="the hooks are not compiled here")
@pytest.mark.parametrize(
    "hook",
    [
        lambda fast_path, _: fast_path.leave(0, 0),
        lambda fast_path, _: fast_path.enter_optimizer(fast_path),
        lambda fast_path, _: fast_path.leave_optimizer(fast_path),
        lambda fast_path, _: fast_path.leave_fetch(fast_path, 0),
        lambda _, page: page.mark(COLLATE),
        lambda _, page: page.enter(page) and page.leave(page),
    ],
)
def test_what_is_always_there_keeps_its_references(hook: object) -> None:
    assert callable(hook)
    fast_path, page = CompiledFastPath(), CompiledPage()
    before = [sys.getrefcount(one) for one in ALWAYS_THERE]
    for _ in range(TIMES):
        hook(fast_path, page)
    lost = [was - sys.getrefcount(one) for was, one in zip(before, ALWAYS_THERE, strict=True)]

    assert max(lost) < TIMES // 2


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_no_file_returns_what_is_always_there_without_counting_that(source: Path) -> None:
    # With the headers of Python 3.12 and later these macros count no reference.
    assert "Py_RETURN_" not in source.read_text()
