"""Modules that no optimizer holds: which are certain, and what is written for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.catalogue import options
from perftui.fixes.gradients import untrained_without
from perftui.fixes.model import Risk
from perftui.run.manifest import Override
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.cpu_runs import judged, staged
from tests.core.diagnosis.test_operator_work import backward, floats
from tests.core.fixes.test_line_changes import changed
from tests.verify.scenarios.expected import read_training

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
PLANTED = Path(__file__).parents[2] / "verify/scenarios/trainings"


def script(backbone: str = BACKBONE, held: str = "head.parameters()", more: str = "") -> str:
    return SCRIPT.format(backbone=backbone, held=held) + more


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
    "added": {"held": "list(head.parameters()) + list(tail.parameters())"},
    "weights loaded": {"backbone": f"{BACKBONE}\nbackbone.load_state_dict(weights)"},
    "a schedule": {"more": "s = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"},
}


@pytest.mark.parametrize("given", WRITTEN.values(), ids=WRITTEN)
def test_what_no_optimizer_holds_gets_no_gradients(given: dict[str, str]) -> None:
    loop = "for images, labels in loader:\n"
    before = script(**given).lstrip("\n").replace("  # here", "")
    after = changed(untrained_without, script(**given))
    assert after == before.replace(loop, f"backbone.requires_grad_(False)\n{loop}")


REFUSED = {
    "held": (
        {"held": "[*head.parameters(), *backbone.parameters()]"},
        "no module that the loop calls",
    ),
    "part of another": ({"more": "model = Both(backbone, head)\n"}, "does more with backbone"),
    "in a list": ({"more": "models = [backbone]\n"}, "does more with backbone"),
    "its parameters are used": (
        {"more": "nn.utils.clip_grad_norm_(backbone.parameters(), 1)\n"},
        "line 13 does more with backbone than call it: backbone.parameters",
    ),
    "its layers are used": ({"more": "head.weight = backbone[0].weight\n"}, "does more with"),
    "made of another module": (
        {"backbone": "base = nn.Linear(2, 2)\nbackbone = nn.Sequential(base)"},
        "may create backbone of something trained",
    ),
    "a class that takes another module": (
        {
            "backbone": "base = nn.Linear(2, 2)\nclass Net(nn.Module):\n"
            "    def __init__(self):\n        self.base = base\nbackbone = Net()"
        },
        "may create backbone of something trained",
    ),
    "a loss": ({"backbone": "backbone = nn.MSELoss()"}, "no module that the loop calls"),
    "a function": (
        {"backbone": "def backbone(x):\n    return x"},
        "no module that the loop calls",
    ),
    "made twice": ({"backbone": f"{BACKBONE}\n{BACKBONE}"}, "no module that the loop calls"),
    "parts of a module": ({"held": "head.layer.parameters()"}, "other than all parameters"),
    "a list of tensors": ({"held": "weights"}, "other than all parameters"),
    "more later": (
        {"more": "optimizer.add_param_group({})\n"},
        "adds parameters to an optimizer",
    ),
}


@pytest.mark.parametrize(("given", "why"), REFUSED.values(), ids=REFUSED)
def test_what_may_be_trained_is_left_alone(given: dict[str, str], why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(untrained_without, script(**given))


def test_without_an_optimizer_of_torch_nothing_is_certain() -> None:
    source = script().replace("torch.optim.Adam", "own.Adam")
    with pytest.raises(PatchRefusedError, match="certainly creates a torch optimizer"):
        changed(untrained_without, source)


def test_the_planted_training_is_mended_and_the_uncertain_one_is_not() -> None:
    source = read_training(PLANTED / "frozen_backbone.py").source
    loop = 'for _ in range(200 if device == "cuda" else 100):'
    after = changed(untrained_without, source.replace(loop, f"{loop}  # here"))
    assert after == source.replace(loop, f"backbone.requires_grad_(False)\n{loop}")
    source = (PLANTED / "finetune_backbone_with_gradients.py").read_text()
    source = source.replace("criterion = nn.CrossEntropyLoss()", "criterion = 1  # here")
    with pytest.raises(PatchRefusedError, match="other than all parameters of a module"):
        changed(untrained_without, source)


def test_it_can_be_tried_whatever_the_source_says() -> None:
    facts = backward(note=floats(unused=40, unused_elements=3_000_000))
    finding = judged(facts, "unused-gradients")
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
    facts = backward(note=floats(unused=40, unused_elements=3_000_000))
    assert facts.run is not None
    (rank,) = facts.run.ranks
    lines = staged(("train.py", 9, "forward"), ("train.py", 12, "backward"))
    manifest = replace(facts.run.manifest, cwd=str(tmp_path))
    run = replace(facts.run, manifest=manifest, ranks=(replace(rank, stacks=lines),))
    given = Facts(run, facts.analysis)
    finding = judged(given, "unused-gradients")
    assert finding is not None
    (option,) = options(finding, given)
    assert (option.override, option.line, option.script_word) == (None, 8, 1)
    assert option.patch is not None
    assert b"backbone.requires_grad_(False)" in option.patch.after
