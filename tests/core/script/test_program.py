"""A source file: parsed by several threads, and what reads a value that a statement gave."""

from __future__ import annotations

import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from perftui.script.names import later_reads, names_bound
from perftui.script.program import parse_program, syntax_tree

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


READ = {
    "after it": "STATEMENT\nuse(x)  # read\n",
    "before it, in the next turn": "for i in y:\n    use(x)  # read\n    STATEMENT\n",
    "added to": "for i in y:\n    x += 1  # read\n    STATEMENT\n",
    "set anew in a branch only": "STATEMENT\nif c:\n    x = 2\nuse(x)  # read\n",
    "set anew in a loop that may not turn": "STATEMENT\nfor i in y:\n    x = 2\nuse(x)  # read\n",
    "set anew from itself": "STATEMENT\nx = x + 1  # read\n",
    "in a function that runs later": "STATEMENT\ndef f():\n    return x  # read\nf()\n",
    "set before the loop": "x = 0\nfor i in y:\n    use(x)  # read\n    STATEMENT\n",
    "after the loop": "for i in y:\n    STATEMENT\nuse(x)  # read\n",
    "in a comprehension": "STATEMENT\nz = [x for i in y]  # read\n",
    "by a with that names another": "STATEMENT\nwith f() as g:\n    use(x)  # read\n",
}
NOT_READ = {
    "set anew before": "STATEMENT\nx = 2\nuse(x)\n",
    "set anew in each turn": "for i in y:\n    x = 2\n    use(x)\n    STATEMENT\n",
    "set anew by the loop": "STATEMENT\nfor x in y:\n    use(x)\n",
    "set anew by the loop around both": "for x in y:\n    use(x)\n    STATEMENT\n",
    "set anew by a with": "STATEMENT\nwith f() as x:\n    use(x)\n",
    "set anew with others": "STATEMENT\n(x, z) = 1, 2\nuse(x)\n",
    "another name of a comprehension": "STATEMENT\nz = [x for x in y]\n",
    "another name of a function": "STATEMENT\ndef f(x):\n    return x\n",
    "before it, once": "x = 0\nuse(x)\nSTATEMENT\n",
}


def lines_read(source: str) -> list[int]:
    """The lines that read what the statement gave ``x``."""
    program = parse_program(source.replace("STATEMENT", "if c: x = 1").encode())
    statement = next(
        node
        for node in program.statements()
        if isinstance(node, ast.If) and ast.unparse(node) == "if c:\n    x = 1"
    )
    assert names_bound(program, statement) == {"x"}
    return [use.lineno for use in later_reads(program, statement, "x")]


@pytest.mark.parametrize("source", READ.values(), ids=READ)
def test_a_value_is_read(source) -> None:
    source = dedent(source)
    marked = [at for at, line in enumerate(source.split("\n"), 1) if line.endswith("# read")]
    assert lines_read(source) == marked


@pytest.mark.parametrize("source", NOT_READ.values(), ids=NOT_READ)
def test_another_value_is_read(source) -> None:
    assert lines_read(dedent(source)) == []


def test_what_a_comprehension_names_is_its_own() -> None:
    program = parse_program(b"y = [x for x in z]\nfor a, b in c:\n    d[0] = e.f = 1\n")
    first, second = program.tree.body
    assert names_bound(program, first) == {"y"}
    assert names_bound(program, second) == {"a", "b"}
