"""Several losses of one graph, taken backward at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftui.fixes.gradients import summed
from perftui.script.program import PatchRefusedError
from tests.core.fixes.test_line_changes import changed
from tests.verify.scenarios.expected import read_training

PLANTED = Path(__file__).parents[2] / "verify/scenarios/trainings"
KEEP = "retain_graph=True"

ROWS = {
    "two": (
        f"a.backward({KEEP})\nb.backward()  # here\n",
        "(a + b).backward()\n",
    ),
    "at the first": (f"a.backward({KEEP})  # here\nb.backward()\n", "(a + b).backward()\n"),
    "three": (
        f"a.backward({KEEP})\nself.b.backward({KEEP})  # here\nc.backward()\nstep()\n",
        "(a + self.b + c).backward()\nstep()\n",
    ),
    "the graph is kept": (
        f"a.backward({KEEP})\nb.backward({KEEP})  # here\n",
        f"(a + b).backward({KEEP})\n",
    ),
    "another graph follows": (
        f"a.backward({KEEP})  # here\nb.backward()\nc.backward()\n",
        "(a + b).backward()\nc.backward()\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), ROWS.values(), ids=ROWS)
def test_passes_that_follow_one_another_are_one(before: str, after: str) -> None:
    assert changed(summed, before) == after


LOOP = """
optimizer.zero_grad()
for task in tasks:
    loss = criterion(outputs[task], truth[task])
    loss.backward(retain_graph=True)  # here
    total += loss.item()
optimizer.step()
"""


def test_the_losses_of_a_loop_are_summed_behind_it() -> None:
    assert (
        changed(summed, LOOP)
        == """optimizer.zero_grad()
losses = []
for task in tasks:
    loss = criterion(outputs[task], truth[task])
    losses.append(loss)
    total += loss.item()
sum(losses).backward()
optimizer.step()
"""
    )
    assert "all_losses = []" in changed(summed, f"losses = 3{LOOP}")


REFUSED = {
    "only one": ("a.backward()  # here\n", "no other backward pass"),
    "something between": (
        f"a.backward({KEEP})  # here\nclip(model)\nb.backward()\n",
        "no other backward pass",
    ),
    "another graph": ("a.backward()\nb.backward()  # here\n", "no other backward pass"),
    "a computed loss": ("f(a).backward()  # here\n", "does more than run backward"),
    "a gradient of its own": ("a.backward(weights)  # here\n", "does more than run backward"),
    "the same loss twice": (
        f"a.backward({KEEP})  # here\na.backward()\n",
        "backward runs twice from one loss",
    ),
    "a loop that drops its graphs": (LOOP.replace(KEEP, ""), "no other backward pass"),
    "a loop that steps": (LOOP.replace("total += loss.item()", "optimizer.step()"), "gradients of"),
    "a loop that reads gradients": (LOOP.replace("loss.item()", "w.grad.norm()"), "gradients of"),
    "a loss that changes": (LOOP.replace("total +=", "loss +="), "changes the loss"),
    "a loop that leaves": (
        LOOP.replace("total += loss.item()", "break"),
        "gradients of each iteration",
    ),
    "a pass behind it": (LOOP + "other.backward()\n", "also runs backward elsewhere"),
}


@pytest.mark.parametrize(("source", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(source: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(summed, source)


def test_gradients_are_the_same() -> None:
    torch = pytest.importorskip("torch")
    head = "import torch\ntorch.manual_seed(0)\nw = torch.randn(5, requires_grad=True)\n"
    row = f"a, b = (w * w).sum(), (w ** 3).sum()\na.backward({KEEP})  # here\nb.backward()\n"
    loop = (
        f"for x in (1.0, 2.0):\n    loss = (x * w * w).sum()\n    loss.backward({KEEP})  # here\n"
    )
    for source in (head + row, head + loop):
        plain: dict[str, Any] = {}
        once: dict[str, Any] = {}
        exec(source, plain)  # noqa: S102
        exec(changed(summed, source), once)  # noqa: S102
        torch.testing.assert_close(plain["w"].grad, once["w"].grad)


def test_the_planted_training_is_mended() -> None:
    source = read_training(PLANTED / "faces_backward_for_each_task.py").source
    marked = source.replace("  # planted", "  # here")
    after = changed(summed, marked)
    assert "    losses = []\n    for task in TASKS:\n" in after
    assert "        losses.append(loss)\n    sum(losses).backward()\n    optimizer.step()" in after
