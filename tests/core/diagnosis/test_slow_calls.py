"""The table of slow calls: each row recognises one snippet, and not one near it.

``slow_calls.txt`` has for each row a snippet that it recognises and one that it does not. The place
is a snippet's last line. After ``##`` follow ``@item`` or the like, ``!cpu`` without a GPU,
``!big`` for files far larger than samples, and the frame that the line called with the innermost
one; without frames samples show the line itself.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from perftui.diagnosis.slow_calls.lookup import ROWS, row_of
from perftui.diagnosis.slow_calls.row import ITEM, STEP, Seen
from perftui.script.program import parse_program
from perftui.script.uses import uses_at

DATA = Path(__file__).with_name("slow_calls.txt")


def cases() -> Iterator[tuple[str, str, str]]:
    lines = DATA.read_text().splitlines()
    for name, hit, miss in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        assert (hit[:2], miss[:2]) == ("+ ", "- ")
        yield name, hit[2:], miss[2:]


def seen(snippet: str) -> Seen:
    code, _, shown = snippet.partition("  ##")
    text = code.replace("\\n", "\n").rstrip()
    text += " pass" if text.endswith(":") else ""
    uses = uses_at(parse_program(text.encode()), text.count("\n") + 1)
    marks = re.findall(r"[@!]\w+", shown)
    calls = [part.strip().partition(" > ") for part in re.sub(r"[@!]\w+", "", shown).split(";")]
    frames = {(via, inner or via or "train.py:1"): 1 for via, _, inner in calls}
    is_item = any(use.function.startswith("__getitem__") for use in uses)
    where = next((mark[1:] for mark in marks if mark[0] == "@"), ITEM if is_item else STEP)
    sizes = (1 << 20, 1 << 10) if "!big" in marks else (0, 0)
    return Seen(uses, frames, where, on_device="!cpu" not in marks, sizes=sizes)


@pytest.mark.parametrize(("name", "hit", "miss"), cases(), ids=[case[0] for case in cases()])
def test_a_row_recognises_its_call_and_leaves_a_near_one_alone(
    name: str, hit: str, miss: str
) -> None:
    found = row_of(seen(hit))
    assert found is not None
    assert found[0].id == name
    advice = found[0].advice(found[1])
    assert "{" not in advice
    assert not advice.endswith(".")
    near = row_of(seen(miss))
    assert near is None or near[0].id != name


def test_every_row_has_a_case_and_a_source() -> None:
    assert sorted(row.id for row in ROWS) == sorted(name for name, *_ in cases())
    assert len(ROWS) >= 150
    for row in ROWS:
        assert row.calls or row.frames or row.operators
        assert row.source.title
        assert row.source.address.startswith("https://")
