"""What a trial does to a training: gradients, sides and switches left out, losses noted."""

from pathlib import Path
from typing import Any

import pytest

from tests.core.agent.conftest import Train
from tests.core.agent.test_overrides import told

pytestmark = pytest.mark.subprocess

ASKED = {"target": "parameters", "arguments": {"requires_grad": False}, "fix": "requires-grad-off"}

PARTLY_TRAINED = """
import torch
from torch import nn
torch.manual_seed(0)
backbone = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU())
head = nn.Linear(8, 1)
model = nn.Sequential(backbone, head)
{more}
optimizer = torch.optim.SGD({held}, lr=0.1)
for step in range(6):
    loss = model(torch.rand(16, 8)).square().mean()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
print(f"{{loss.item():.6f}}", [one.requires_grad for one in model.parameters()], torch.rand(1))
"""


def partly_trained(held: str = "head.parameters()", more: str = "", after: str = "") -> str:
    return PARTLY_TRAINED.format(held=held, more=more, after=after)


@pytest.mark.slow
def test_gradients_go_and_the_training_stays_as_it_was(train: Train) -> None:
    plain = train(partly_trained(), agent=False)
    run = train(partly_trained(), overrides=[ASKED])
    assert (run.code, run.err) == (0, "")
    assert plain.out.replace("[True, True, ", "[False, False, ") == run.out
    assert run.out.split()[1:5] == ["[False,", "False,", "True,", "True]"]
    note = told(run)
    assert (note["outcome"], note["fix"]) == ("applied", "requires-grad-off")
    assert note["values"] == {"requires_grad": False}


REFUSED = [
    (
        partly_trained(held="model.parameters()"),
        "every parameter with a gradient is in an optimizer",
    ),
    (
        partly_trained(after="[one.data.sub_(0.1 * one.grad) for one in backbone.parameters()]"),
        "the script changes these parameters itself",
    ),
    (
        partly_trained(more="model = nn.DataParallel(model)"),
        "DataParallel was made with these parameters",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("source", "why"), REFUSED)
def test_what_is_trained_otherwise_keeps_its_gradients(
    unnoticed: Train, source: str, why: str
) -> None:
    note = told(unnoticed(source, overrides=[ASKED]))
    assert (note["outcome"], note["why"]) == ("refused", f"requires_grad: {why}")


@pytest.mark.slow
def test_what_gradients_are_asked_of_keeps_them(train: Train) -> None:
    """``autograd.grad`` fills no ``.grad``, and would raise without."""
    source = partly_trained(
        held="[*head.parameters(), *backbone[0].parameters()]",
        more="probe = nn.Linear(1, 1); model.add_module('probe', probe)",
        after="torch.autograd.grad(probe(torch.ones(1)).sum(), list(probe.parameters()))",
    ).replace("model(torch", "nn.Sequential(backbone, head)(torch")
    run = train(source, overrides=[ASKED])
    assert (run.code, run.err) == (0, "")
    assert told(run)["outcome"] == "refused"


@pytest.mark.slow
def test_nothing_else_of_parameters_can_be_tried(train: Train) -> None:
    run = train(partly_trained(), overrides=[{**ASKED, "arguments": {"requires_grad": True}}])
    assert told(run)["why"] == "requires_grad: only requires_grad=False can be tried"


def test_a_short_training_says_nothing(train: Train) -> None:
    short = train(partly_trained().replace("range(6)", "range(2)"), overrides=[ASKED])
    assert (short.code, short.notes("override")) == (0, [])


EPOCHS = """
import torch
from torch.utils.data import DataLoader, Dataset

class Counted(Dataset):
    made = 0
    def __len__(self):
        return 48
    def __getitem__(self, index):
        Counted.made += 1
        return torch.full((4,), float(index))

def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    loader = DataLoader(Counted(), batch_size=4, {arguments})
    other = DataLoader(Counted(), batch_size=48)
    seen = []
    for epoch in range(3):
        for batch in loader:
            seen.append(int(batch[0, 0]))
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    made = Counted.made
    for batch in other:
        pass
    print(len(seen), len(set(seen)), made, Counted.made - made)

main()
"""
LINE = 16


def isolated(tmp_path: Path, line: int | None = None, **arguments: Any) -> list[dict[str, Any]]:
    file = str(tmp_path / "train.py") if line else None
    return [{"target": "isolate", "arguments": arguments, "file": file, "line": line}]


def test_the_first_batches_come_again_and_epochs_stay_as_long(train: Train, tmp_path: Path) -> None:
    run = train(EPOCHS.format(arguments=""), overrides=isolated(tmp_path, LINE, repeated_batches=4))
    # 36 steps with four batches of four samples; the other loader makes all of its own.
    assert (run.code, run.err, run.out) == (0, "", "36 4 16 48\n")
    assert run.step_kinds.count("train") == 36
    (note,) = run.notes("override")
    assert (note["outcome"], note["line"]) == ("applied", LINE)


@pytest.mark.parametrize("stays", [True, False])
def test_they_do_with_workers(train: Train, tmp_path: Path, stays: bool) -> None:
    arguments = f"num_workers=1, persistent_workers={stays}"
    run = train(
        EPOCHS.format(arguments=arguments), overrides=isolated(tmp_path, LINE, repeated_batches=4)
    )
    assert (run.code, run.out) == (0, "36 4 0 48\n")
    assert run.step_kinds.count("train") == 36


def test_a_loader_that_knows_no_length_goes_on(train: Train, tmp_path: Path) -> None:
    source = """
import torch
from torch.utils.data import DataLoader, IterableDataset

class Few(IterableDataset):
    def __iter__(self):
        return iter(torch.zeros(6, 4))

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for batch in DataLoader(Few(), batch_size=1):
    model(batch).sum().backward()
    optimizer.step()
"""
    run = train(source, overrides=isolated(tmp_path, repeated_batches=4), options={"max_steps": 20})
    assert (run.code, run.err) == (0, "")
    assert run.step_kinds.count("train") == 20


def test_the_loader_alone_is_timed_and_the_script_ends(train: Train, tmp_path: Path) -> None:
    run = train(EPOCHS.format(arguments=""), overrides=isolated(tmp_path, LINE, loader_alone=0.01))
    assert (run.code, run.err, run.out) == (0, "", "")
    assert run.step_kinds == []
    (note,) = run.notes("loader_alone")
    assert note["batches"] >= 20
    assert note["ns"] >= 1e7


def test_a_loader_without_batches_is_reported(train: Train, tmp_path: Path) -> None:
    source = EPOCHS.format(arguments="").replace("return 48", "return 0")
    run = train(source, overrides=isolated(tmp_path, LINE, loader_alone=0.01))
    assert run.code == 0
    (note,) = run.notes("loader_alone")
    assert note == {"batches": 0, "ns": 0}


def test_nothing_is_printed_logged_or_saved(train: Train, tmp_path: Path) -> None:
    source = """
import logging, sys
import torch
logging.basicConfig(stream=sys.stdout)
print("printed")
logging.getLogger(__name__).error("logged")
sys.stdout.write("written")
torch.save({}, "saved.pt")
raise RuntimeError("told")
"""
    run = train(source, overrides=isolated(tmp_path, output=False))
    assert (run.code, run.out) == (1, "")
    assert "RuntimeError: told" in run.err
    assert not (tmp_path / "saved.pt").exists()


def test_a_side_that_is_not_known_is_refused(train: Train, tmp_path: Path) -> None:
    source = "import torch\ntorch.optim.SGD([torch.zeros(1)], 0.1).step()\nprint(1)\n"
    run = train(source, overrides=isolated(tmp_path, gravity=0))
    assert (run.code, run.out) == (0, "1\n")
    notes = run.notes("override")
    assert [note["outcome"] for note in notes] in ([], ["refused"])


SWITCHED = """
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


def switched(shown: str, before: str = "pass", steps: int = 12) -> str:
    return SWITCHED.format(shown=shown, before=before, steps=steps)


def switch(name: str, value: Any, blocks: tuple[int, int, bool] | None = None) -> dict[str, Any]:
    request = {"target": "switch", "arguments": {name: value}, "fix": "a-fix"}
    if blocks is not None:
        request["blocks"] = dict(zip(("first", "steps", "begins_changed"), blocks, strict=True))
    return request


def of_all() -> tuple[str, list[Any], list[Any], str]:
    """How the script sets all switches, to what, what is asked for, and what shows them."""
    settings, own, asked, shown = zip(*SETTINGS.values(), strict=True)
    return "; ".join(settings), list(own), list(asked), f"[{', '.join(shown)}]"


def test_switches_are_held_whatever_the_script_sets(train: Train) -> None:
    """Of two that ask for one the later decides, and one that is not known is refused."""
    setting, _, values, shown = of_all()
    asked = [switch("threads", 7), *map(switch, SETTINGS, values), switch("other", 1)]
    run = train(switched(shown, setting), overrides=asked, options=LIMITED)
    assert (run.code, run.err, run.out) == (0, "", " ".join([str(values)] * 12) + "\n")
    notes = sorted(run.notes("override"), key=lambda note: note["number"])
    outcomes = [note["outcome"] for note in notes]
    assert outcomes == ["refused", *["applied"] * len(SETTINGS), "refused"]
    held = [{name: value} for name, value in zip(SETTINGS, values, strict=True)]
    assert [note["values"] for note in notes[1:-1]] == held


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
def test_switches_flip_with_the_blocks(train: Train, begins_changed: bool) -> None:
    setting, own, values, shown = of_all()
    source = switched(shown).replace("model =", f"{setting}\nmodel =", 1)
    pairs = zip(SETTINGS, values, strict=True)
    asked = [switch(name, value, (2, 2, begins_changed)) for name, value in pairs]
    run = train(source, overrides=asked, options=LIMITED)
    assert (run.code, run.err) == (0, "")
    ways = (values, own) if begins_changed else (own, values)
    assert run.out == " ".join(in_turn(*ways)) + "\n"
    assert [note["outcome"] for note in run.notes("override")] == ["applied"] * len(SETTINGS)
    changed = [way != begins_changed for way in (False, True, True, False, False)]
    blocks = sorted((note["step"], note["is_changed"]) for note in run.notes("block"))
    each = zip((2, 4, 6, 8, 10), changed, strict=True)
    assert blocks == [block for block in each for _ in SETTINGS]


@pytest.mark.slow
def test_what_the_script_sets_meanwhile_is_its_own_afterwards(train: Train) -> None:
    source = switched(
        "(torch.get_num_threads(), torch.is_deterministic_algorithms_warn_only_enabled())",
        "torch.set_num_threads(4) if step == 7 else None;"
        "torch.use_deterministic_algorithms(True, warn_only=True)",
        steps=16,
    )
    flipping = [switch("threads", 2, (2, 3, False)), switch("deterministic", False, (2, 3, False))]
    run = train(source, overrides=flipping, options=LIMITED)
    assert run.code == 0, run.err
    own, changed, later = "(1, True)", "(2, True)", "(4, True)"
    assert (
        run.out.strip().replace(") (", ")|(").split("|") == [own] * 6 + [changed] * 6 + [later] * 4
    )


def test_anomaly_detection_of_a_block_flips_as_well(train: Train) -> None:
    source = (
        switched("torch.is_anomaly_enabled()")
        .replace("    model(torch", "    with torch.autograd.detect_anomaly():\n     model(torch")
        .replace("    seen", "     seen")
        .replace("step in range", "step in range", 1)
    )
    source = "import warnings\nwarnings.simplefilter('ignore')\n" + source
    run = train(source, overrides=[switch("anomaly", False, (2, 2, False))], options=LIMITED)
    assert run.code == 0, run.err
    assert run.out.split() == in_turn(True, False)


def test_two_optimizers_of_a_step_count_once(train: Train) -> None:
    source = (
        switched("torch.get_num_threads()")
        .replace("    optimizer.zero_grad()", "    second.step()\n    optimizer.zero_grad()")
        .replace("seen = []", "second = torch.optim.SGD([torch.ones(1)], 0.1)\nseen = []")
    )
    run = train(source, overrides=[switch("threads", 2, (2, 2, False))], options=LIMITED)
    assert run.out.split() == list("111122221111")


TWO_LOSSES = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    first, second = model(torch.ones(3, 4)).square().mean(0)
    {backward}
    optimizer.step()
    optimizer.zero_grad()
    print(f"{{(first + second).item():.6f}}")
"""

ALIKE = {
    "once": "(first + second).backward()",
    "one by one": "first.backward(retain_graph=True); second.backward()",
    "by autograd": "torch.autograd.backward(first + second)",
}


@pytest.mark.parametrize("how", ALIKE)
def test_each_step_is_the_sum_of_its_backward_passes(unnoticed: Train, how: str) -> None:
    run = unnoticed(TWO_LOSSES.format(backward=ALIKE[how]), options={"losses": 4})
    assert (run.code, run.err) == (0, "")
    (note,) = run.notes("losses")
    assert note["values"] == pytest.approx([float(line) for line in run.out.split()[:4]], abs=1e-6)


def test_a_loss_that_is_no_number_is_reported(train: Train) -> None:
    source = TWO_LOSSES.format(
        backward="(first * float('nan')).backward(); torch.nn.init.ones_(model.weight)"
    )
    (note,) = train(source, options={"losses": 2}).notes("losses")
    assert note["values"] == ["nan", "nan"]


def test_what_is_no_single_number_is_none(train: Train) -> None:
    source = TWO_LOSSES.format(backward="torch.stack([first, second]).backward(torch.ones(2))")
    assert train(source, options={"losses": 2}).notes("losses") == []


def test_a_script_without_steps_keeps_no_more_than_it_may(train: Train) -> None:
    source = """
import gc
import torch
weight = torch.ones(1, requires_grad=True)
for turn in range(400):
    (weight * 2).sum().backward()
print(sum(isinstance(one, torch.Tensor) for one in gc.get_objects()))
"""
    plain, run = train(source, agent=False), train(source, options={"losses": 1})
    assert run.code == 0
    assert int(run.out) <= int(plain.out) + 64


WRITING = """
import os, shutil, sys
import torch

spared = sys.argv[1]
open("first.txt", "w").write("new")
shutil.rmtree(spared)
def tried(work):
    try:
        work()
        print("written")
    except OSError as error:
        print(error.strerror, os.path.basename(error.filename))
tried(lambda: open("best.txt", "w"))
tried(lambda: torch.save({}, "best.pt"))
tried(lambda: os.replace("first.txt", "best.txt"))
tried(lambda: open("best.txt", "w"))
print(open("best.txt").read())
"""


def test_it_is_refused(train: Train, tmp_path: Path) -> None:
    spared = tmp_path / "spared"
    for name in ("first.txt", "best.txt", "best.pt"):
        (tmp_path / name).write_text(f"what {name} was")
    run = train(WRITING, str(spared), options={"spares_files": True, "spared": str(spared)})
    assert (run.code, run.err) == (0, "")
    refused = "perftui cannot keep a copy: No such file or directory"
    assert run.out.splitlines() == [
        f"{refused} best.txt",
        f"{refused} best.pt",
        f"{refused} best.txt",
        f"{refused} best.txt",
        "what best.txt was",
    ]
    assert (tmp_path / "best.pt").read_text() == "what best.pt was"
