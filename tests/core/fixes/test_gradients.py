"""Gradients: from one backward pass, and none of what is not trained."""

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.catalogue import options
from perftui.fixes.fix import Plan
from perftui.fixes.gradients import backward_once, untrained_without
from perftui.fixes.option import Risk
from perftui.run.manifest import Override
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.runs import staged
from tests.core.diagnosis.stories import found
from tests.core.diagnosis.test_operator_work import backward, floats
from tests.core.fixes.test_line_changes import PLANTED, changed, executed
from tests.verify.scenarios.expected import read_training

KEEP = "retain_graph=True"

ROWS = {
    "two": (f"a.backward({KEEP})\nb.backward()  # here\n", "(a + b).backward()\n"),
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
    assert changed(backward_once.plan, before) == after


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
        changed(backward_once.plan, LOOP)
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
    assert "all_losses = []" in changed(backward_once.plan, f"losses = 3{LOOP}")


NOT_SUMMED = {
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


@pytest.mark.parametrize(("source", "why"), NOT_SUMMED.values(), ids=NOT_SUMMED)
def test_losses_are_not_summed_where_it_is_not_certain(source: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(backward_once.plan, source)


def test_gradients_are_the_same() -> None:
    torch = pytest.importorskip("torch")
    head = "import torch\ntorch.manual_seed(0)\nw = torch.randn(5, requires_grad=True)\n"
    row = f"a, b = (w * w).sum(), (w ** 3).sum()\na.backward({KEEP})  # here\nb.backward()\n"
    loop = (
        f"for x in (1.0, 2.0):\n    loss = (x * w * w).sum()\n    loss.backward({KEEP})  # here\n"
    )
    for source in (head + row, head + loop):
        plain, once = executed(source, changed(backward_once.plan, source))
        torch.testing.assert_close(plain["w"].grad, once["w"].grad)


def test_the_planted_training_is_mended() -> None:
    source = read_training(PLANTED / "faces_backward_for_each_task.py").source
    marked = source.replace("  # planted", "  # here")
    after = changed(backward_once.plan, marked)
    assert "    losses = []\n    for task in TASKS:\n" in after
    assert "        losses.append(loss)\n    sum(losses).backward()\n    optimizer.step()" in after


SCRIPT = """
import torch
from torch import nn
from itertools import chain
{backbone}
head = nn.Linear(64, 10)
optimizer = torch.optim.Adam({held}, lr=1e-3)
for images, labels in loader:  # here
    loss = nn.functional.cross_entropy(head(backbone(images)), labels)
    backbone.zero_grad()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BACKBONE = "backbone = nn.Sequential(nn.Linear(64, 64), nn.ReLU())"


def script(backbone: str = BACKBONE, held: str = "head.parameters()", more: str = "") -> str:
    return SCRIPT.format(backbone=backbone, held=held) + more


def without(source: str) -> Plan:
    """The change of what ``source`` calls within a loss."""
    lines = source.strip().splitlines()
    return untrained_without(tuple(n for n, text in enumerate(lines, 1) if "loss = " in text))


WRITTEN = {
    "torch's own": {},
    "moved": {"backbone": f"{BACKBONE}\nbackbone = backbone.to(device)"},
    "moved at once": {"backbone": f"{BACKBONE}.to(device).eval()"},
    "a class of the file": {
        "backbone": "class Net(nn.Module):\n    def forward(self, x):\n        y = x\n"
        "        return y\n\nbackbone = Net()"
    },
    "from elsewhere": {"backbone": "from models import resnet\nbackbone = resnet(True)"},
    "by options": {"backbone": "args = p.parse_args()\nbackbone = nn.Linear(args.width, 64)"},
    "by a number": {"backbone": "WIDTH = 64\nbackbone = nn.Linear(WIDTH, 64)"},
    "in a list": {"held": "[*head.parameters(), *tail.parameters()]"},
    "in a chain": {"held": "chain(head.parameters(), tail.parameters())"},
    "parts of a module": {"held": "head.layer.parameters()"},
    "added": {"held": "list(head.parameters()) + list(tail.parameters())"},
    "weights loaded": {"backbone": f"{BACKBONE}\nbackbone.load_state_dict(weights)"},
    "a schedule": {"more": "s = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"},
}


@pytest.mark.parametrize("given", WRITTEN.values(), ids=WRITTEN)
def test_what_no_optimizer_holds_gets_no_gradients(given: dict[str, str]) -> None:
    loop = "for images, labels in loader:\n"
    before = script(**given).lstrip("\n").replace("  # here", "")
    after = changed(without(script(**given)), script(**given))
    assert after == before.replace(loop, f"backbone.requires_grad_(False)\n{loop}")


NOT_FROZEN = {
    "held": ({"held": "[*head.parameters(), *backbone.parameters()]"}, "not certain which"),
    "known by another name": ({"held": "[head.weight]"}, "line 6 gives an optimizer head"),
    "a loss": ({"backbone": "backbone = nn.MSELoss()"}, "not certain which modules"),
    "a function": ({"backbone": "def backbone(x):\n    return x"}, "not certain which modules"),
    "made twice": ({"backbone": f"{BACKBONE}\n{BACKBONE}"}, "not certain which modules"),
    "a list of tensors": ({"held": "weights"}, "line 6 gives an optimizer weights"),
    "more later": ({"more": "optimizer.add_param_group({})\n"}, "adds parameters to an optimizer"),
}


@pytest.mark.parametrize(("given", "why"), NOT_FROZEN.values(), ids=NOT_FROZEN)
def test_what_may_be_trained_is_left_alone(given: dict[str, str], why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(without(script(**given)), script(**given))


def test_the_planted_training_is_mended_and_the_uncertain_one_is_not() -> None:
    source = read_training(PLANTED / "frozen_backbone.py").source
    loop = 'for _ in range(200 if device == "cuda" else 100):'
    after = changed(without(source), source.replace(loop, f"{loop}  # here"))
    assert after == source.replace(loop, f"backbone.requires_grad_(False)\n{loop}")
    source = (PLANTED / "finetune_backbone_with_gradients.py").read_text()
    source = source.replace("criterion = nn.CrossEntropyLoss()", "criterion = 1  # here")
    with pytest.raises(PatchRefusedError, match="not certain which modules"):
        changed(without(source), source)


def test_it_can_be_tried_whatever_the_source_says() -> None:
    facts = backward(note=floats(unused=40, unused_elements=3_000_000))
    finding = found(facts, "unused-gradients")
    assert finding is not None
    (option,) = options(finding, facts)
    asked = Override("parameters", {"requires_grad": False}, fix="requires-grad-off")
    assert (option.override, option.patch, option.risks) == (asked, None, (Risk.NORMS,))
    assert option.title == "no gradients for 40 parameters that are in no optimizer"
    assert option.why_not == "the run names no line of the script for it"
    assert options(finding, backward()) == ()


def test_where_the_source_is_certain_its_text_is_tried(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(script().replace("  # here", ""))
    called = {"path": "", "name": "Sequential", "file": str(path), "line": 9}
    noted = floats(unused=40, unused_elements=3_000_000) | {"untrained": [called]}
    facts = backward(note=noted)
    (rank,) = facts.run.ranks
    lines = staged(("train.py", 9, "forward"), ("train.py", 12, "backward"))
    manifest = replace(facts.run.manifest, cwd=str(tmp_path))
    run = replace(facts.run, manifest=manifest, ranks=(replace(rank, stacks=lines),))
    given = Facts(run, facts.analysis)
    finding = found(given, "unused-gradients")
    assert finding is not None
    assert (finding.place.line, finding.advice[:34]) == (9, "call requires_grad_(False) on Sequ")
    (option,) = options(finding, given)
    assert (option.override, option.line, option.script_word) == (None, 8, 1)
    assert b"backbone.requires_grad_(False)" in option.patch.after
