"""Templates of what a script may write out, and what they fit."""

from __future__ import annotations

import ast

import pytest

from perftui.script.program import parse_program
from perftui.script.templates import LocalValues, Match, Templates

HEAD = "import torch as th\nimport math\nfrom torch.nn import functional as F\n"
FITTING = {
    "in another order": ("$a * $b + $c", "z + y * x", {"a": "y", "b": "x", "c": "z"}),
    "the same name again": ("$a * $a", "f(x) * f(x)", {"a": "f(x)"}),
    "a function by its import": ("torch.sqrt($a)", "th.sqrt(x + 1)", {"a": "x + 1"}),
    "a function of a module": ("torch.nn.functional.relu($a)", "F.relu(x)", {"a": "x"}),
    "a dimension by its name": ("$a.sum(-1, keepdim=True)", "x.sum(keepdim=True, dim=-1)", {}),
    "other keywords": ("torch.ones($n, **_)", "th.ones(2, device=d)", {"n": "2"}),
    "numbers alike": ("min(1, $a)", "min(1.0, x)", {"a": "x"}),
    "statements": ("$a.mul_($b); $a.add_($c)", "x.mul_(2)\nx.add_(y)", {"b": "2", "c": "y"}),
    "an assignment": ("$a = $a * $b", "x.grad = 2 * x.grad", {"a": "x.grad", "b": "2"}),
}
OTHERS = {
    "another order": ("$a - 1", "1 - x"),
    "two names": ("$a * $a", "x * y"),
    "a function of another module": ("torch.sqrt($a)", "math.sqrt(x)"),
    "a method": ("torch.sqrt($a)", "x.sqrt()"),
    "a further argument": ("torch.sqrt($a)", "th.sqrt(x, out=y)"),
    "an argument less": ("$a.sum(-1)", "x.sum()"),
    "another operator": ("$a + $b", "x @ y"),
    "another number of statements": ("$a.mul_($b); $a.add_($c)", "x.mul_(2)"),
}


def match(template: str, source: str) -> Match | None:
    program = parse_program((HEAD + source).encode())
    return Templates(program).match(program.tree.body[3:], template)


@pytest.mark.parametrize(("template", "source", "parts"), FITTING.values(), ids=FITTING)
def test_what_a_template_fits(template, source, parts) -> None:
    found = match(template, source)
    assert found is not None
    assert {name: ast.unparse(found[name]) for name in parts} == parts


@pytest.mark.parametrize(("template", "source"), OTHERS.values(), ids=OTHERS)
def test_what_a_template_does_not_fit(template, source) -> None:
    assert match(template, source) is None


def test_local_names_stand_for_what_they_were_set_to() -> None:
    program = parse_program(b"def f(x, eps):\n    s = x * x\n    t = s + eps\n    return 1 / t\n")
    function, end = program.functions["f"][0], program.tree.body[0].body[-1].value  # type: ignore[attr-defined]
    local = LocalValues(program, function, end)  # type: ignore[arg-type]
    rules = {"sum": ("$square + $eps",), "square": ("$x ** 2", "$x * $x")}
    found = Templates(program, rules, local).match(end, "1 / $sum")
    assert found is not None
    assert [one.lineno for one in found.followed] == [3, 2]
    where = {"eps": lambda node: isinstance(node, ast.Constant)}
    assert Templates(program, rules, local, where).match(end, "1 / $sum") is None
