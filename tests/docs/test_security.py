"""Each promise of docs/security.md names tests that exist."""

import ast
import re

import pytest

from tests.guards.sources import REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "security.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def promises() -> dict[str, str]:
    """The text of each promise by its heading."""
    text = DOCUMENT.split("\n## Promises\n")[1].split("\n## ")[0]
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_there_are_promises() -> None:
    assert len(promises()) >= 8


@pytest.mark.parametrize("promise", promises())
def test_a_promise_names_tests_that_exist(promise: str) -> None:
    named = NAMED.findall(promises()[promise])
    assert named
    missing = [(file, name) for file, name in named if name not in functions_of(file)]
    assert missing == []


def functions_of(file: str) -> set[str]:
    path = REPOSITORY / file
    tree = ast.parse(path.read_bytes()) if path.is_file() else ast.Module([], [])
    return {
        node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_every_test_that_is_named_anywhere_exists() -> None:
    every = NAMED.findall(DOCUMENT)
    assert [one for one in every if one[1] not in functions_of(one[0])] == []
