"""Switches of torch are held, all the time or in blocks of steps, and then the script's again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.core.agent.conftest import Run, Train

pytestmark = pytest.mark.subprocess

TRAINING = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []
for step in range({steps}):
    {before}
    model(torch.ones(2, 4)).sum().backward()
    seen.append({shown})
    optimizer.step()
    optimizer.zero_grad()
print(*seen)
"""

LIMITED = {"max_steps": 100}
"""Blocks are of trials, whose steps are limited."""

SETTINGS = {
    "threads": ("torch.set_num_threads(3)", 3, 2, "torch.get_num_threads()"),
    "anomaly": (
        "torch.autograd.set_detect_anomaly(True)",
        True,
        False,
        "torch.is_anomaly_enabled()",
    ),
    "deterministic": (
        "torch.use_deterministic_algorithms(True, warn_only=True)",
        True,
        False,
        "torch.are_deterministic_algorithms_enabled()",
    ),
    "onednn": (
        "torch.backends.mkldnn.enabled = False",
        False,
        True,
        "torch.backends.mkldnn.enabled",
    ),
}
"""By switch: how the script sets it, to what, what is asked for instead, and what is in force."""


def training(shown: str, before: str = "pass", steps: int = 12) -> str:
    return TRAINING.format(shown=shown, before=before, steps=steps)


def asked(name: str, value: Any, blocks: tuple[int, int, bool] | None = None) -> dict[str, Any]:
    request = {"target": "switch", "arguments": {name: value}, "fix": "a-fix"}
    if blocks is not None:
        request["blocks"] = dict(zip(("first", "steps", "begins_changed"), blocks, strict=True))
    return request


def outcome(run: Run) -> tuple[str, dict[str, Any]]:
    assert (run.code, run.err) == (0, "")
    (note,) = run.notes("override")
    return note["outcome"], note["values"]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_switch_is_held_whatever_the_script_sets(train: Train, name: str) -> None:
    setting, _, value, shown = SETTINGS[name]
    run = train(training(shown, setting), overrides=[asked(name, value)], options=LIMITED)
    assert outcome(run) == ("applied", {name: value})
    assert run.out.split() == [str(value)] * 12


LENGTHS = (5, 4, 3)
"""Of 12 steps: two before the first block, of which the first counts with the second, then blocks
of two: one way, the other way twice, and so on."""


def in_turn(one: Any, other: Any) -> list[str]:
    return [
        str(way)
        for way, length in zip((one, other, one), LENGTHS, strict=True)
        for _ in range(length)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("begins_changed", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_switch_flips_with_the_blocks(train: Train, name: str, begins_changed: bool) -> None:
    setting, own, value, shown = SETTINGS[name]
    source = training(shown).replace("model =", f"{setting}\nmodel =", 1)
    run = train(source, overrides=[asked(name, value, (2, 2, begins_changed))], options=LIMITED)
    assert outcome(run) == ("applied", {name: value})
    assert run.out.split() == in_turn(*((value, own) if begins_changed else (own, value)))
    changed = [note["is_changed"] for note in run.notes("block")]
    assert changed == [way != begins_changed for way in (False, True, True, False, False)]
    assert [note["step"] for note in run.notes("block")] == [2, 4, 6, 8, 10]


@pytest.mark.slow
def test_what_the_script_sets_meanwhile_is_its_own_afterwards(train: Train) -> None:
    source = training(
        "(torch.get_num_threads(), torch.is_deterministic_algorithms_warn_only_enabled())",
        "torch.set_num_threads(4) if step == 7 else None;"
        "torch.use_deterministic_algorithms(True, warn_only=True)",
        steps=16,
    )
    flipping = [asked("threads", 2, (2, 3, False)), asked("deterministic", False, (2, 3, False))]
    run = train(source, overrides=flipping, options=LIMITED)
    assert run.code == 0, run.err
    own, changed, later = "(1, True)", "(2, True)", "(4, True)"
    assert (
        run.out.strip().replace(") (", ")|(").split("|") == [own] * 6 + [changed] * 6 + [later] * 4
    )


def test_anomaly_detection_of_a_block_flips_as_well(train: Train) -> None:
    source = (
        training("torch.is_anomaly_enabled()")
        .replace("    model(torch", "    with torch.autograd.detect_anomaly():\n     model(torch")
        .replace("    seen", "     seen")
        .replace("step in range", "step in range", 1)
    )
    source = "import warnings\nwarnings.simplefilter('ignore')\n" + source
    run = train(source, overrides=[asked("anomaly", False, (2, 2, False))], options=LIMITED)
    assert run.code == 0, run.err
    assert run.out.split() == in_turn(True, False)


def test_two_optimizers_of_a_step_count_once(train: Train) -> None:
    source = (
        training("torch.get_num_threads()")
        .replace("    optimizer.zero_grad()", "    second.step()\n    optimizer.zero_grad()")
        .replace("seen = []", "second = torch.optim.SGD([torch.ones(1)], 0.1)\nseen = []")
    )
    run = train(source, overrides=[asked("threads", 2, (2, 2, False))], options=LIMITED)
    assert run.out.split() == list("111122221111")


def test_a_switch_that_is_not_known_is_refused(train: Train) -> None:
    run = train(training("0"), overrides=[asked("other", 1)], options=LIMITED)
    assert outcome(run)[0] == "refused"


def test_of_two_that_ask_for_one_switch_the_later_decides(train: Train) -> None:
    run = train(
        training("torch.get_num_threads()", "torch.set_num_threads(1)"),
        overrides=[asked("threads", 2), asked("threads", 3)],
    )
    assert run.out.split() == ["3"] * 12
    assert [note["outcome"] for note in run.notes("override")] == ["refused", "applied"]
