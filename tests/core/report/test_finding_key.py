"""What a finding is called from run to run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.diagnosis.model import Finding, Severity
from perftui.facts.place import Place
from perftui.report.findings import finding_key

SOURCE = """\
import torch

class Images:
    size = 3

    def __getitem__(self, index):
        def read():
            return index
        return [read() for _ in range(3)]

def loader(data):
    return data

loader(Images())
"""


def key(path: Path, line: int) -> str:
    return finding_key(at(Place(file=str(path), line=line)))


def at(place: Place | None) -> Finding:
    return Finding("input-bound", Severity.WARNING, "It waits.", place=place)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("line", "function"),
    [
        (1, "<module>"),
        (4, "Images"),
        (8, "Images.__getitem__.read"),
        (9, "Images.__getitem__"),
        (12, "loader"),
        (14, "<module>"),
        (99, "<module>"),
    ],
)
def test_a_line_is_named_by_its_function(script: Path, line: int, function: str) -> None:
    assert key(script, line) == f"input-bound@train.py:{function}"


def test_lines_that_move_and_copies_elsewhere_have_the_same_key(
    script: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy" / "train.py"
    copy.parent.mkdir()
    copy.write_text(f"# one\n# two\n{SOURCE}")
    assert key(script, 9) == key(copy, 11)
    other = replace(at(Place(file=str(script), line=9)), rule="input-uneven")
    assert finding_key(other) != key(script, 9)


def test_what_cannot_be_read_here_is_named_by_the_file(script: Path) -> None:
    assert key(Path("/nowhere/train.py"), 3) == "input-bound@train.py"
    script.write_text("def (:\n")
    assert key(script, 1) == "input-bound@train.py"
    assert key(script.with_suffix(".so"), 1) == "input-bound@train.so"


def test_without_a_line_the_operator_counts_and_else_the_rule_alone() -> None:
    assert finding_key(at(Place(operator="aten::sort"))) == "input-bound@aten::sort"
    assert finding_key(at(Place(rank=3))) == "input-bound"
    assert finding_key(at(None)) == "input-bound"


def test_long_names_end_in_a_digest() -> None:
    long = [finding_key(at(Place(operator="k" * 300 + end))) for end in ("a", "b", "a")]
    assert long[0] == long[2] != long[1]
    assert max(map(len, long)) == 109
