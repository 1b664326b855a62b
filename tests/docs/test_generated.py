"""What the documents have of the program is what it says."""

from pathlib import Path

import pytest

from perftui_tui.dialogs.help import BY_SCREEN
from tests.docs.documents import DOCUMENTS, ROOT
from tests.docs.generated import KINDS, SCOPES, about, generated, keys, parts, prose

WITH_PARTS = [document for document in DOCUMENTS if list(parts(document))]


@pytest.mark.parametrize("document", WITH_PARTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_parts_are_up_to_date(document: Path) -> None:
    assert document.read_text() == generated(document), "run: python -m tests.docs.generated"


def test_all_that_can_be_generated_is_shown() -> None:
    shown = [part.split() for document in WITH_PARTS for part in parts(document)]
    assert {kind for kind, *_ in shown} == set(KINDS)
    scopes = [scope for kind, *words in shown if kind == "keys" for scope in words]
    assert sorted(scopes) == sorted(SCOPES)
    assert sorted(words[0] for kind, *words in shown if kind == "about") == sorted(BY_SCREEN)
    numbers = [words[0] for kind, *words in shown if kind == "numbers"]
    assert sorted(numbers) == sorted(name for name, entries in BY_SCREEN.items() if entries)


def test_a_key_is_shown_with_all_that_press_it() -> None:
    assert "| `down` `j` | The next finding |" in keys("diagnosis").splitlines()
    assert "`a` tries a fix without touching" in about("diagnosis")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("use bias=False.", "use `bias=False`."),
        ("x.detach() (or torch._foreach_)", "`x.detach()` (or `torch._foreach_`)"),
        ("run `perftui probe`", "run `perftui probe`"),
        ("from 2.0 on, e4 and 5 %", "from 2.0 on, e4 and 5 %"),
    ],
)
def test_what_belongs_to_a_program_is_code(text: str, shown: str) -> None:
    assert prose(text) == shown
