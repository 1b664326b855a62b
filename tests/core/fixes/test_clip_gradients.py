"""Gradients that are clipped by hand: torch's function leaves the same behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.change import LineChange, has_subject
from perftui.fixes.gradients import clipped_at_once
from perftui.script.program import PatchRefusedError
from tests.core.fixes.test_line_changes import changed

PLANTED = Path(__file__).parents[2] / "verify/scenarios/trainings/lm_clips_gradients_by_hand.py"

HEAD = """import math
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
parameters = list(net.parameters())
net(torch.randn(4, 3)).square().sum().backward()
"""
SPARSE = "import torch\ne = torch.nn.Embedding(9, 9, sparse=True)\nfor p in params:\n    pass\n"
NUMBERS = """total = 0.0
for p in net.parameters():
    total += (p.grad**2).sum().item()  # here
norm = total**0.5
for p in net.parameters():
    p.grad = p.grad * min(1.0, LIMIT / (norm + 1e-6))
"""
TENSORS = """total_norm = 0
for p in parameters:
    if p.grad is not None:
        total_norm += p.grad.data.norm(2) ** 2  # here
total_norm = total_norm ** (1. / 2)
coef = LIMIT / (total_norm + 1e-6)
if coef < 1:
    for p in parameters:
        if p.grad is not None:
            p.grad.data.mul_(coef)
norm = total_norm
"""
LOCALS = """total = 0.0
for p in parameters:
    one = p.grad.detach().norm(2)
    total += one.item() ** 2  # here
norm = math.sqrt(total)
if norm > LIMIT:
    scale = LIMIT / (norm + 1e-6)
    for p in parameters:
        p.grad *= scale
"""
FORMS = {"numbers": NUMBERS, "tensors": TENSORS, "local names": LOCALS}
CALLS = {
    "numbers": "norm = torch.nn.utils.clip_grad_norm_(net.parameters(), LIMIT).item()\n",
    "tensors": "total_norm = torch.nn.utils.clip_grad_norm_(parameters, LIMIT)\n"
    "norm = total_norm\n",
    "local names": "norm = torch.nn.utils.clip_grad_norm_(parameters, LIMIT).item()\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_clipping_is_one_call(form: str) -> None:
    assert changed(clipped_at_once, HEAD + FORMS[form]) == HEAD + CALLS[form].replace(
        "  # here", ""
    )


@pytest.mark.parametrize("form", FORMS)
def test_gradients_and_norm_are_the_same(form: str) -> None:
    torch = pytest.importorskip("torch")
    for limit in (0.5, 1e4):
        source = HEAD + FORMS[form].replace("LIMIT", str(limit))
        plain: dict[str, Any] = {}
        once: dict[str, Any] = {}
        exec(source, plain)  # noqa: S102
        exec(changed(clipped_at_once, source), once)  # noqa: S102
        assert type(plain["norm"]) is type(once["norm"])
        assert float(once["norm"]) == pytest.approx(float(plain["norm"]))
        for one, other in zip(plain["parameters"], once["parameters"], strict=True):
            torch.testing.assert_close(one.grad, other.grad)


REFUSED = {
    "another epsilon": (NUMBERS.replace("1e-6", "1e-8"), "is not what clip_grad_norm_ does"),
    "short ones are scaled up": (
        NUMBERS.replace("min(1.0, LIMIT / (norm + 1e-6))", "(LIMIT / (norm + 1e-6))"),
        "may scale gradients that are short already",
    ),
    "the sum is read": (f"{NUMBERS}print(total)\n", "line 13 reads total, too"),
    "other parameters are scaled": (
        NUMBERS.replace("for p in net.parameters():\n    p.grad =", "for p in head:\n    p.grad ="),
        "no loop certainly clips",
    ),
    "something between": (
        NUMBERS.replace("norm = total**0.5", "log(total)\nnorm = total**0.5"),
        "no loop certainly clips",
    ),
    "each by its own norm": (
        "for p in net.parameters():\n    p.grad.mul_(1 / p.grad.norm())  # here\n",
        "no loop certainly clips",
    ),
    "a generator": (
        TENSORS.replace("total_norm = 0\n", "parameters = net.parameters()\ntotal_norm = 0\n"),
        "may be a generator",
    ),
    "sparse gradients": (f"w = torch.nn.Embedding(9, 3, sparse=True)\n{NUMBERS}", "are sparse"),
    "a gradient that is kept": (f"before = p.grad\n{NUMBERS}", "line 7 keeps a gradient"),
}


@pytest.mark.parametrize(("source", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(source: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(clipped_at_once, HEAD + source)


def test_what_else_the_planted_training_counts_stays() -> None:
    source = PLANTED.read_text().replace("  # planted", "  # here", 1)
    after = changed(clipped_at_once, source)
    assert "    norm = nn.utils.clip_grad_norm_(parameters, limit).item()" in after
    assert "        bad += torch.isnan(p.grad).any().item()  # planted\n" in after
    assert "total +=" not in after


def test_a_file_that_clips_nothing_has_nothing_of_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import torch\nfor p in params:\n    p.data.add_(p.grad)\n")
    change = LineChange("", str(path), 2, clipped_at_once, "")
    assert not has_subject(change, Facts(None))
    # A loop that clips, if not certainly as torch does, is one.
    path.write_text(SPARSE)
    os.utime(path, ns=(1, 1))
    assert has_subject(change, Facts(None))
