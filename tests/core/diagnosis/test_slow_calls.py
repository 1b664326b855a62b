"""The table of slow calls: each row recognises one snippet, and not one near it.

``slow_calls.txt`` has for each row a snippet that it recognises and one that it does not. The place
is a snippet's last line, or ``# here``. After ``##``: ``@item`` or alike, ``!cpu`` without a GPU,
``!big`` for files far larger than samples, ``!loop`` and ``!wide`` for findings about loops and
large tensors, ``=aten::x`` for the operator, and the frame that the line called with the innermost
one, if not the line itself."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perftui.diagnosis.slow_calls.lookup import ROWS, advised, row_of
from perftui.diagnosis.slow_calls.row import ITEM, STEP, Seen
from perftui.diagnosis.symptoms.operators.loops import WHOLE
from perftui.facts.fact import Facts
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from perftui.script.forms import forms_at
from perftui.script.item_work import cut_at, fetched_at, search_at
from perftui.script.program import parse_program
from perftui.script.unread import unread_at
from perftui.script.uses import uses_at
from tests.core.diagnosis.runs import with_tables
from tests.core.diagnosis.stories import finding_of
from tests.core.diagnosis.test_script_python import logging

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
    program, line = parse_program(text.encode()), text.count("\n", 0, text.find("  # here")) + 1
    uses = uses_at(program, line)
    marks = re.findall(r"[@!]\w+", shown)
    operators = frozenset(re.findall(r"=(\S+)", shown))
    parts = re.sub(r"[@!]\w+|=\S+", "", shown).split(";")
    calls = [f" {part.strip()}".partition(" > ") for part in parts]
    frames = {(via.strip(), inner or via.strip() or "train.py:1"): 1 for via, _, inner in calls}
    is_item = any("def __getitem__" in use.around for use in uses)
    where = next((mark[1:] for mark in marks if mark[0] == "@"), ITEM if is_item else STEP)
    # Most snippets are too short to read what they make.
    unread = unread_at(program, line) if "!unread" in marks else None
    uses += (unread.use,) if unread else ()
    uses += (*search_at(program, line), *forms_at(program, line))
    uses += cut_at(program, line, 2) if where == ITEM else ()
    uses = (where == ITEM and fetched_at(program, line)) or uses
    rule = "loop-of-indexing" if "!loop" in marks else "page-faults" * ("!wide" in marks)
    return Seen(uses, frames, where, operators, "!cpu" not in marks, "!big" in marks or None, rule)


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
    assert {row.id for row in ROWS} == {name for name, *_ in cases()}
    for row in ROWS:
        assert row.calls or row.frames or row.operators
        assert row.source.title
        assert row.source.address.startswith("https://")


SCRIPT = """\
import copy

def keep(batch):
    last = copy.deepcopy(batch)
    text = book.dumps(batch)
"""


def script_with(line: int, via: str, where: Path) -> RunSnapshot:
    """A run whose line of ``SCRIPT`` calls that frame."""
    run = logging(60, (1, line, "keep", via))
    stacks = run.ranks[0].stacks
    script = where / "train.py"
    script.write_text(SCRIPT)
    os.utime(script, ns=(0, 0))
    files = np.where(stacks["line"] == line, str(script), "/p/other.py").astype(object)
    return with_tables(run, stacks=Table(stacks.columns, {**stacks.values, "file": files}))


@pytest.mark.parametrize(
    ("line", "via", "advice"),
    [
        (4, "python3.12/copy.py deepcopy", "copy.deepcopy copies every object inside"),
        (4, "mine/other.py deepcopy", ""),
        (5, "python3.12/json/__init__.py dumps", "book.dumps turns objects into text"),
        (5, "mine/book.py Book.dumps", ""),
    ],
)
def test_a_finding_says_what_to_do_about_what_its_line_does(
    line: int, via: str, advice: str, tmp_path: Path
) -> None:
    finding = finding_of(script_with(line, via, tmp_path), "python-bound")
    assert finding.advice.startswith(advice)
    assert bool(finding.advice) == bool(advice)
    assert any(figure.label == "read more" for figure in finding.facts) == bool(advice)


@pytest.mark.parametrize(
    ("rule", "advice", "is_general"),
    [
        ("growing-steps", "look for what grows: inputs, caches, files", True),
        ("growing-steps", "add them once, before the loop", False),
        ("compute-bound", "fuse the longest operators, or call fewer of them", True),
        ("per-parameter-loop", WHOLE, True),
        ("compute-bound", "lower precision", False),
        ("gpu-idle", "", False),
    ],
)
def test_general_advice_makes_way_for_that_of_a_row(
    rule: str, advice: str, is_general: bool, tmp_path: Path
) -> None:
    facts = Facts(script_with(4, "python3.12/copy.py deepcopy", tmp_path))
    given = replace(finding_of(facts, "python-bound"), rule=rule, advice=advice)
    assert advised(facts, given).advice.startswith("copy.deepcopy") == is_general
