"""Averages of weights by operators on lists: the numbers of the loops that they replace."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from perftui.fixes.optimizer import averaged_at_once
from tests.core.fixes.test_line_changes import changed

TRAININGS = Path(__file__).parents[2] / "verify/scenarios/trainings"

HEAD = """
import torch
torch.manual_seed(0)
net, ema = (torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2)) for _ in range(2))
net[1].bias.requires_grad_(False)
shadow = {name: p.detach().clone() for name, p in ema.named_parameters()}
by_name = dict(ema.named_parameters())
decay = 0.9
with torch.no_grad():
"""
PAIRS = "for e, p in zip(ema.parameters(), net.parameters()):\n    "
NAMED = "for name, p in net.named_parameters():\n    "

LOOPS = {
    "mul and add": f"{PAIRS}e.mul_(decay).add_(p, alpha=1 - decay)  # here",
    "a product": f"{PAIRS}e.mul_(decay).add_(p * (1 - decay))  # here",
    "lerp": f"{PAIRS}e.lerp_(p, 1 - decay)  # here",
    "copy": f"{PAIRS}e.copy_((1 - decay) * p + decay * e)  # here",
    "data": f"{PAIRS}e.data = e.data * decay + p.data * (1 - decay)  # here",
    "by name": f"{NAMED}old = by_name[name]\n    old.copy_(decay * old + (1 - decay) * p)  # here",
    "a dict": f"{NAMED}shadow[name] = decay * shadow[name] + (1 - decay) * p  # here",
    "some of them": f"{NAMED}if p.requires_grad:\n        by_name[name].lerp_(p, 0.25)  # here",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_averages_are_the_same(loop: str) -> None:
    torch = pytest.importorskip("torch")
    source = HEAD + indent(loop, "    ")
    after = changed(averaged_at_once, source)
    assert "_foreach_" in after
    plain: dict[str, Any] = {}
    listed: dict[str, Any] = {}
    exec(source, plain)  # noqa: S102
    exec(after, listed)  # noqa: S102
    for one, other in zip(plain["ema"].parameters(), listed["ema"].parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert plain["shadow"].keys() == listed["shadow"].keys()
    for name, value in plain["shadow"].items():
        torch.testing.assert_close(value, listed["shadow"][name])


def test_data_that_something_else_holds_stays_as_it_is() -> None:
    pytest.importorskip("torch")
    loop = LOOPS["data"].replace("\n", "\n    ")
    names: dict[str, Any] = {}
    exec(changed(averaged_at_once, f"{HEAD}    held = ema[0].weight.data\n    {loop}"), names)  # noqa: S102
    plain: dict[str, Any] = {}
    exec(HEAD + "    pass", plain)  # noqa: S102
    assert names["held"].equal(plain["ema"][0].weight)


def test_planted_trainings_are_mended_and_keep_their_comments() -> None:
    for name, text in (
        ("ema_by_hand", "rows = [(averaged[name], value) for name, value in student.named_para"),
        ("residual_average_by_parameter", "self.shadow.update(zip(names, averages))"),
    ):
        source = (TRAININGS / f"{name}.py").read_text().replace("  # planted", "  # here", 1)
        after = changed(averaged_at_once, source)
        assert text in after
        assert after.count("# planted") >= 1
