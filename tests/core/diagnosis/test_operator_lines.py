"""Which line calls an operator."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perftui.facts.fact import Facts
from perftui.facts.source.operator_lines import calls_of, line_of, line_with
from tests.core.diagnosis.cpu_runs import ops, trained

SCRIPT = '''"""Sorts in float64."""
import torch
table = torch.nn.Embedding(9, 9)
def forward(x):
    x = layer(x)
    return x.sort().values
'''


@pytest.fixture
def facts(tmp_path: Path) -> Facts:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    lines = [(str(script), line, "forward") for line in (5, 5, 6)]
    return trained(lambda t: ops(t.forward(), "aten::sort").close(), {"forward": 10}, *lines)


def test_the_line_whose_text_calls_the_operator_goes_before_a_longer_one(facts: Facts) -> None:
    longest, sorts = line_of(facts, "forward"), line_of(facts, "forward", calls_of("aten::sort"))
    assert longest is not None
    assert sorts is not None
    assert (longest.line, sorts.line) == (5, 6)


def test_where_no_text_calls_it_the_longest_line_is_named_unless_only_that_counts(
    facts: Facts,
) -> None:
    found = line_of(facts, "forward", calls_of("aten::topk"))
    assert found is not None
    assert found.line == 5
    assert line_of(facts, "forward", calls_of("aten::topk"), only=True) is None
    assert line_of(facts, "backward") is None


def test_a_line_that_no_sample_saw_is_found_by_a_name_it_uses(facts: Facts) -> None:
    found = line_with(facts, frozenset({"Embedding"}))
    assert found is not None
    assert found.line == 3
    assert line_with(facts, frozenset({"float64"})) is None


@pytest.mark.parametrize(
    ("operator", "text"),
    [
        ("aten::linalg_svdvals", "torch.linalg.svdvals(weight)"),
        ("aten::index_put_", "x.index_put_((rows,), y)"),
        ("aten::_unique2", "torch.unique(x)"),
        ("aten::cumsum", "x.cumsum(0)"),
    ],
)
def test_an_operator_is_found_in_the_text_of_its_call(operator: str, text: str) -> None:
    assert re.search(calls_of(operator), text)
