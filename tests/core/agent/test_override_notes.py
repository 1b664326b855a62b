"""What becomes of each override of a run, as real trainings tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftui.agent.native import IS_COMPILED
from tests.core.agent.conftest import Run, Train

pytestmark = pytest.mark.subprocess

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = {optimizer}
loader = DataLoader(TensorDataset(torch.rand(64, 8)), batch_size=8)
for epoch in range(2):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"{{loss.item():.4f}}", [(g.get("fused"), g.get("foreach")) for g in optimizer.param_groups])
"""
LINE = 7

FUSED = {"target": "optimizer", "arguments": {"fused": True}, "fix": "optimizer-fused"}


def training(optimizer: str) -> str:
    return TRAINING.format(optimizer=optimizer)


def told(run: Run) -> dict[str, Any]:
    (note,) = run.notes("override")
    return note


FUSABLE = (
    "torch.optim.AdamW(model.parameters(), lr=1e-2)",
    "torch.optim.Adam(params=model.named_parameters(), lr=1e-2)",
    "torch.optim.SGD([{'params': model[0].parameters()}, {'params': model[2].parameters()}])",
    "torch.optim.Adagrad(list(model.parameters()), foreach=False)",
)


def test_optimizers_are_fused_where_they_are_made(train: Train, tmp_path: Path) -> None:
    # One training after another, of which each begins anew.
    source = "".join(training(optimizer) for optimizer in FUSABLE)
    lines = [at * training("").count("\n") + LINE for at in range(len(FUSABLE))]
    overrides = [{**FUSED, "file": str(tmp_path / "train.py"), "line": line} for line in lines]
    plain = train(source, agent=False)
    run = train(source, overrides=overrides)
    assert (run.code, run.err) == (0, "")
    pairs = zip(plain.out.splitlines(), run.out.splitlines(), strict=True)
    for without, fused in pairs:
        assert fused.split()[0] == without.split()[0]
        assert "(True," in fused
    notes = sorted(run.notes("override"), key=lambda note: note["number"])
    assert [note["number"] for note in notes] == [0, 1, 2, 3]
    assert [note["line"] for note in notes] == lines
    for note in notes:
        assert (note["fix"], note["target"]) == ("optimizer-fused", "optimizer")
        assert (note["outcome"], note["why"], note["values"]) == ("applied", None, {"fused": True})
        assert note["file"].rpartition("/")[2] == "train.py"


REFUSED = [
    ("torch.optim.LBFGS(P)", {"fused": True}, "LBFGS does not take it"),
    ("torch.optim.NAdam(P)", {"fused": True}, "NAdam does not take it"),
    ("Adam(P, foreach=True)", {"fused": True}, "foreach is set and excludes it"),
    ("Adam(P, differentiable=True)", {"foreach": True}, "the optimizer is differentiable"),
    (
        "Adam(P, lr=torch.tensor(0.01))",
        {"foreach": True},
        "lr or betas are tensors, which requires capturable",
    ),
    (
        "Adam([{'params': iter(P), 'foreach': False}])",
        {"foreach": True},
        "a parameter group sets it to another value",
    ),
    (
        "Adam([*P, torch.zeros(2, dtype=torch.complex64)])",
        {"fused": True},
        "a parameter is torch.complex64, which is not floating point",
    ),
    (
        "Adam([*P, torch.zeros(2, device='meta')])",
        {"fused": True},
        "torch has no fused Adam for meta",
    ),
    ("SGD(embedding.parameters())", {"fused": True}, "an embedding's gradients are sparse"),
    ("OwnStep(P)", {"fused": True}, "OwnStep overrides step()"),
    ("SGD(P, lr=0.1)", {"lr": 1}, "changes how the weights are updated"),
    ("SGD(P)", {"fused": 1}, "1 is neither True nor False"),
]
"""Constructions, the arguments that are asked for, and why they get none of them."""

MANY = """
from torch.optim import Adam, SGD
class OwnStep(SGD):
    def step(self, closure=None):
        pass
embedding = nn.Embedding(4, 2, sparse=True)
P = list(model.parameters())
"""


def test_what_an_optimizer_cannot_be_is_refused_and_said(train: Train, tmp_path: Path) -> None:
    constructions = "".join(f"print(repr({made}))\n" for made, _, _ in REFUSED)
    source = training("torch.optim.SGD(model.parameters())") + MANY + constructions
    # The training comes last, so that what is made before it is told of once it begins.
    head, loop, rest = source.partition("loader = ")
    loop, rest = (loop + rest).split(MANY)
    source = head + MANY + rest + loop
    first = source[: source.index("print(repr(")].count("\n") + 1
    overrides = [
        {
            "target": "optimizer",
            "arguments": asked,
            "file": str(tmp_path / "train.py"),
            "line": line,
        }
        for line, (_, asked, _) in enumerate(REFUSED, first)
    ]
    plain = train(source, agent=False)
    run = train(source, overrides=overrides)
    assert (run.code, run.out, run.err) == (plain.code, plain.out, plain.err)
    assert run.code == 0
    notes = {note["number"]: note for note in run.notes("override")}
    reasons = [notes[number]["why"].partition(": ")[2] for number in range(len(REFUSED))]
    assert reasons == [why for _, _, why in REFUSED]
    assert {note["outcome"] for note in notes.values()} == {"refused"}
    assert [notes[number]["line"] - first for number in range(len(REFUSED))] == [
        *range(len(REFUSED))
    ]


def test_fused_and_foreach_together_are_applied_in_part(train: Train) -> None:
    both = {"target": "optimizer", "arguments": {"fused": True, "foreach": True}}
    note = told(train(training("torch.optim.AdamW(model.parameters())"), overrides=[both]))
    assert note["outcome"] == "partly"
    assert list(note["values"].values()).count(True) == 1


def test_a_call_that_is_not_meant_is_left_alone_and_not_told_of(train: Train) -> None:
    elsewhere = {**FUSED, "file": "/elsewhere/train.py", "line": LINE}
    run = train(training("torch.optim.AdamW(model.parameters())"), overrides=[elsewhere])
    assert run.notes("override") == []
    assert "(None, None)" in run.out


WRONG = ("model.parameters(), no_such=1", "torch.zeros(3)", "[]", "model.parameters(), -1")
"""Arguments that no optimizer accepts."""


@pytest.mark.skipif(not IS_COMPILED, reason="plain hooks stand in tracebacks")
def test_wrong_arguments_fail_in_the_script_as_they_did(train: Train) -> None:
    tries = "".join(
        f"try:\n    torch.optim.AdamW({wrong})\nexcept Exception:\n    traceback.print_exc()\n"
        for wrong in WRONG
    )
    last = training(f"torch.optim.AdamW({WRONG[0]})")
    source = last.replace("optimizer =", f"import traceback\n{tries}optimizer =")
    plain = train(source, agent=False)
    run = train(source, overrides=[FUSED])
    assert plain.code == 1
    assert plain.err.count("Traceback") == len(WRONG) + 1
    assert (run.code, run.out, run.err) == (plain.code, plain.out, plain.err)


def test_a_target_that_is_not_known_is_refused(train: Train) -> None:
    given = [
        {"target": "autocast", "arguments": {"dtype": "bfloat16"}, "fix": "amp"},
        {"target": "compile", "arguments": {}, "file": "train.py", "line": 3},
    ]
    notes = train(training("torch.optim.SGD(model.parameters())"), overrides=given).notes(
        "override"
    )
    assert [(note["number"], note["outcome"]) for note in notes] == [(0, "refused"), (1, "refused")]
    assert notes[0]["why"] == "dtype: this version of perftui does not know the target autocast"
    assert notes[1]["why"].endswith("does not know the target compile")


def test_a_variable_that_arrived_is_told_and_one_that_did_not_is_kept_secret(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TOKEN", "secret")
    asked = {"OMP_NUM_THREADS": 1, "TOKEN": "other"}
    note = told(
        train(
            training("torch.optim.SGD(model.parameters())"),
            overrides=[{"target": "environment", "arguments": asked}],
        )
    )
    assert note["outcome"] == "partly"
    assert note["values"] == {"OMP_NUM_THREADS": 1, "TOKEN": None}
    assert "secret" not in str(note)


def test_an_override_of_a_loader_tells_what_is_in_force(train: Train) -> None:
    asked = {"num_workers": 1, "persistent_workers": True, "pin_memory": True}
    run = train(
        training("torch.optim.SGD(model.parameters())"),
        overrides=[{"target": "DataLoader", "arguments": asked}],
    )
    note = told(run)
    assert (note["outcome"], note["why"]) == ("partly", "pin_memory: there is no GPU to copy to")
    assert note["values"] == {**asked, "pin_memory": False}
    assert note["line"] == LINE + 1
    assert "override" not in run.loader()


def test_loaders_made_anew_for_each_epoch_say_it_once(train: Train) -> None:
    source = training("torch.optim.SGD(model.parameters())").replace("in loader", "in made()")
    source = source.replace("loader = ", "made = lambda: ")
    asked = {"target": "DataLoader", "arguments": {"num_workers": 1}}
    assert told(train(source, overrides=[asked]))["outcome"] == "applied"


SHUFFLED = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(
    TensorDataset(torch.rand(64, 8)), batch_size=8, shuffle=True, num_workers=1, {more}
)
for epoch in range(2):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"{{loss.item():.6f}}", torch.rand(1), loader.num_workers, loader.prefetch_factor)
"""
LOADERS = {
    "no workers": ({"num_workers": 0}, "prefetch_factor=3, timeout=60", ["0", "None"]),
    "a longer queue": ({"prefetch_factor": 8}, "persistent_workers=True", ["1", "8"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "more", "made"), LOADERS.values(), ids=LOADERS)
def test_a_loader_trains_the_same_without_workers_and_with_a_longer_queue(
    train: Train, asked: dict[str, Any], more: str, made: list[str]
) -> None:
    source = SHUFFLED.format(more=more)
    plain = train(source, agent=False)
    run = train(source, overrides=[{"target": "DataLoader", "arguments": asked}])
    assert (run.code, run.err) == (0, "")
    assert run.out.split()[-2:] == made
    # The same samples in the same order, and the same random numbers between them.
    assert run.out.split()[:-2] == plain.out.split()[:-2]
    note = told(run)
    assert (note["outcome"], note["values"]) == ("applied", asked)
