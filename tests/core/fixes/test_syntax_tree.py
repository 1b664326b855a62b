"""Source files are parsed by the app's threads at the same time."""

import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perftui.script.program import syntax_tree

SOURCE = Path(ast.__file__).read_bytes()


@pytest.fixture
def often_elsewhere() -> Iterator[None]:
    """Each garbage collection runs Python, in which the interpreter goes to another thread."""

    def collected(_phase: str, _info: dict[str, int]) -> None:
        for _ in range(100):
            pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    gc.callbacks.append(collected)
    yield
    gc.callbacks.remove(collected)
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.usefixtures("often_elsewhere")
def test_threads_parse_at_the_same_time() -> None:
    with ThreadPoolExecutor(2) as pool:
        trees = list(pool.map(syntax_tree, [SOURCE] * 30))
    assert {len(tree.body) for tree in trees} == {len(ast.parse(SOURCE).body)}
    assert gc.isenabled()


def test_the_collector_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        with pytest.raises(SyntaxError):
            syntax_tree(b"def f(:")
        assert not gc.isenabled()
    finally:
        gc.enable()
