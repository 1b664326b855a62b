"""Which arguments of a call may be tried, and what becomes of each override of a run."""

import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.hooks.call_site import CallSite, find_call_site
from perftui.agent.native import IS_COMPILED
from perftui.agent.overrides.data_loader import WORKER_SETTINGS, Overrides
from perftui.agent.overrides.request import Request
from tests.core.agent.conftest import Run, Train

HERE = CallSite("/project/train.py", 10, 14, "main")


class IterableDataset:
    """Stands for torch's."""


class Tensor:
    is_cuda = True


class Torch:
    """As much of torch as a decision needs."""

    Tensor = Tensor

    class utils:  # noqa: N801 - named as in torch
        class data:  # noqa: N801 - named as in torch
            IterableDataset = IterableDataset

    class cuda:  # noqa: N801 - named as in torch
        available = False

        @classmethod
        def is_available(cls) -> bool:
            return cls.available


def make(
    self: Any,
    dataset: Any,
    batch_size: int = 1,
    shuffle: bool | None = None,
    num_workers: int = 0,
    collate_fn: Any = None,
    pin_memory: bool = False,
    timeout: float = 0,
    worker_init_fn: Any = None,
    multiprocessing_context: Any = None,
    *,
    prefetch_factor: int | None = None,
    persistent_workers: bool = False,
) -> None:
    """A constructor with the arguments of DataLoader."""


def apply(
    arguments: dict[str, Any], *args: Any, site: CallSite | None = HERE, **kwargs: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the loader is made with, and what was refused."""
    request = Request(0, "DataLoader", arguments, HERE.file, HERE.line)
    args, kwargs, outcome = Overrides(Torch, make, [request]).apply(site, None, args, kwargs)
    return inspect.signature(make).bind(None, *args, **kwargs).arguments, outcome.refused


class Map:
    def __init__(self, held: Any = None) -> None:
        self.held = held


class Sharded(IterableDataset):
    def __iter__(self) -> Iterator[Any]:
        info: Any = get_worker_info()  # type: ignore[name-defined]  # noqa: F821 - only its name matters
        yield info


class Unsharded(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("args", [(), (8,), (8, True), (8, True, 0)])
def test_workers_are_set_however_the_rest_was_passed(args: tuple[Any, ...]) -> None:
    made, refused = apply({"num_workers": 2}, Map(), *args)

    assert refused == {}
    assert made["num_workers"] == 2
    names = ("batch_size", "shuffle")
    assert [made[name] for name in names[: len(args)]] == list(args[:2])


given_arguments = st.fixed_dictionaries(
    {},
    optional={
        "batch_size": st.integers(1, 64),
        "num_workers": st.integers(0, 4),
        "pin_memory": st.booleans(),
        "prefetch_factor": st.sampled_from([None, 2, 4]),
        "persistent_workers": st.booleans(),
    },
)


@given(given_arguments, given_arguments)
def test_only_what_was_asked_for_changes(passed: dict[str, Any], wanted: dict[str, Any]) -> None:
    made, refused = apply(wanted, Map(), **passed)

    for name in {*passed, *wanted}:
        changed = name in wanted and name not in refused
        expected = wanted[name] if changed else passed.get(name)
        # What torch refuses without workers goes with them.
        if name in WORKER_SETTINGS and wanted.get("num_workers") == 0:
            expected = expected and None
        assert made.get(name) == expected
    assert made.get("batch_size") == passed.get("batch_size")


@given(given_arguments)
def test_settings_of_workers_are_never_given_to_a_loader_without(wanted: dict[str, Any]) -> None:
    made, _ = apply(wanted, Map())

    if not made.get("num_workers"):
        assert "prefetch_factor" not in made
        assert "persistent_workers" not in made


WORKERS = {"num_workers": 2}
ONE_FETCHED_AHEAD = {**WORKERS, "prefetch_factor": 4}

TAKEN: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "whatever their order": ({"persistent_workers": True, "num_workers": 1}, Map(), {}),
    "an iterable dataset that asks for its worker": (WORKERS, Sharded(), {}),
    "a queue of a number of batches": ({"prefetch_factor": 8}, Map(), WORKERS),
}
REFUSED_FOR: dict[str, tuple[dict[str, Any], Any, dict[str, Any]]] = {
    "shard": (WORKERS, Unsharded(), {}),
    "generators": (WORKERS, Map(held=(n for n in range(3))), {}),
    "GPU": (WORKERS, Map(held=[Tensor()]), {}),
    "open files": (WORKERS, Map(held=io.BytesIO()), {}),
    "spawned": (
        WORKERS,
        Map(),
        {"collate_fn": lambda batch: batch, "multiprocessing_context": "spawn"},
    ),
    "another order": ({"num_workers": 0}, Sharded(), ONE_FETCHED_AHEAD),
    "worker_init_fn, which may set up the dataset": (
        {"num_workers": 0},
        Map(),
        {**ONE_FETCHED_AHEAD, "worker_init_fn": print},
    ),
    "0 is not a number of batches": ({"prefetch_factor": 0}, Map(), WORKERS),
    "None is not a number of batches": ({"prefetch_factor": None}, Map(), WORKERS),
    "True is not a number of batches": ({"prefetch_factor": True}, Map(), WORKERS),
}


@pytest.mark.parametrize("case", TAKEN)
def test_what_changes_no_batch_is_taken(case: str) -> None:
    wanted, dataset, given = TAKEN[case]
    made, refused = apply(wanted, dataset, **given)

    assert refused == {}
    assert {name: made[name] for name in wanted} == wanted


@pytest.mark.parametrize("why", REFUSED_FOR)
def test_what_might_is_left_as_it_was(why: str) -> None:
    wanted, dataset, given = REFUSED_FOR[why]
    made, refused = apply(wanted, dataset, **given)

    (name,) = wanted
    assert why in refused[name]
    assert {name: made[name] for name in made if name not in ("self", "dataset")} == given


def test_without_workers_what_only_they_can_have_is_left_out() -> None:
    only_theirs = {"persistent_workers": True, "timeout": 9, "multiprocessing_context": "fork"}
    made, refused = apply(
        {"num_workers": 0}, Map(), **ONE_FETCHED_AHEAD, **only_theirs, shuffle=True
    )

    assert refused == {}
    kept = {name: made[name] for name in made if name not in ("self", "dataset")}
    assert kept == {"num_workers": 0, "shuffle": True}


@pytest.mark.parametrize("available", [False, True])
def test_pinned_memory_needs_a_gpu(available: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Torch.cuda, "available", available)

    made, _ = apply({"pin_memory": True}, Map())

    assert made.get("pin_memory", False) is available


@pytest.mark.parametrize("line", [9, 15])
def test_another_call_is_left_as_it_is(line: int) -> None:
    site = CallSite(HERE.file, line, line, "main")

    made, refused = apply({"num_workers": 2}, Map(), site=site)

    assert (made.get("num_workers"), refused) == (None, {})


def test_a_call_of_several_lines_is_met_by_any_of_them() -> None:
    assert [line for line in range(8, 17) if HERE.covers(HERE.file, line)] == [10, 11, 12, 13, 14]


def test_arguments_that_do_not_fit_are_left_to_the_constructor() -> None:
    overrides = Overrides(Torch, make, [Request(0, "DataLoader", {"num_workers": 2})])

    args, kwargs, outcome = overrides.apply(HERE, None, (), {"no_such": 1})

    assert (args, kwargs, outcome.applied) == ((), {"no_such": 1}, {})


def test_a_call_site_is_the_line_that_calls() -> None:
    site = find_call_site()

    assert site.file == str(Path(__file__).resolve())
    assert site.function == "test_a_call_site_is_the_line_that_calls"
    lines = Path(__file__).read_text().splitlines()
    assert "find_call_site()" in lines[site.line - 1]


names = st.sampled_from(["num_workers", "pin_memory", "fused", "foreach"])
values = st.dictionaries(names, st.sampled_from([True, False, 2]), max_size=4)


@given(values, values, st.dictionaries(names, st.just("no"), max_size=4))
def test_an_override_is_applied_only_where_all_of_it_is_in_force(
    asked: dict[str, Any], in_force: dict[str, Any], refused: dict[str, str]
) -> None:
    note = Request(3, "optimizer", asked, fix="f").note(
        {name: why for name, why in refused.items() if name in asked}, in_force, HERE
    )

    lacks = {n for n, value in asked.items() if n in refused or in_force.get(n, "none") != value}
    expected = "applied" if not lacks else "refused" if lacks == set(asked) else "partly"
    assert note["outcome"] == expected
    assert {reason.split(":")[0] for reason in (note["why"] or "").split("; ") if reason} == lacks
    assert (note["number"], note["fix"], note["file"], note["line"]) == (3, "f", HERE.file, 10)
    assert note["values"] == {name: in_force.get(name) for name in asked}


pytestmark = pytest.mark.subprocess

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
optimizer = {optimizer}
loader = DataLoader(TensorDataset(torch.rand(64, 8)), batch_size=8{more})
for epoch in range(2):
    for (x,) in loader:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"{{loss.item():.4f}}", {shown})
"""
LINE = 7

FUSED = {"target": "optimizer", "arguments": {"fused": True}, "fix": "optimizer-fused"}


IN_FORCE = "[(g.get('fused'), g.get('foreach')) for g in optimizer.param_groups]"
ADAMW, SGD = (f"torch.optim.{name}(model.parameters())" for name in ("AdamW", "SGD"))


def training(optimizer: str, more: str = "", shown: str = IN_FORCE) -> str:
    return TRAINING.format(optimizer=optimizer, more=more, shown=shown)


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


def test_what_an_optimizer_cannot_be_is_refused_and_said(unnoticed: Train, tmp_path: Path) -> None:
    constructions = "".join(f"print(repr({made}))\n" for made, _, _ in REFUSED)
    source = training(SGD) + MANY + constructions
    # The training comes last, so that what is made before it is told of once it begins.
    head, loop, rest = source.partition("loader = ")
    loop, rest = (loop + rest).split(MANY)
    source = head + MANY + rest + loop
    first = source[: source.index("print(repr(")].count("\n") + 1
    here = {"target": "optimizer", "file": str(tmp_path / "train.py")}
    numbered = enumerate(REFUSED, first)
    overrides = [{**here, "arguments": asked, "line": line} for line, (_, asked, _) in numbered]
    run = unnoticed(source, overrides=overrides)
    assert run.code == 0
    notes = sorted(run.notes("override"), key=lambda note: note["number"])
    assert [note["why"].partition(": ")[2] for note in notes] == [why for _, _, why in REFUSED]
    assert {note["outcome"] for note in notes} == {"refused"}
    assert [note["line"] for note in notes] == [*range(first, first + len(REFUSED))]


def test_fused_and_foreach_together_are_applied_in_part(train: Train) -> None:
    both = {"target": "optimizer", "arguments": {"fused": True, "foreach": True}}
    note = told(train(training(ADAMW), overrides=[both]))
    assert note["outcome"] == "partly"
    assert list(note["values"].values()).count(True) == 1


WRONG = ("model.parameters(), no_such=1", "torch.zeros(3)", "[]", "model.parameters(), -1")
"""Arguments that no optimizer accepts."""


@pytest.mark.skipif(not IS_COMPILED, reason="plain hooks stand in tracebacks")
def test_wrong_arguments_fail_in_the_script_as_they_did(unnoticed: Train) -> None:
    tries = "".join(
        f"try:\n    torch.optim.AdamW({wrong})\nexcept Exception:\n    traceback.print_exc()\n"
        for wrong in WRONG
    )
    last = training(f"torch.optim.AdamW({WRONG[0]})")
    source = last.replace("optimizer =", f"import traceback\n{tries}optimizer =")
    run = unnoticed(source, overrides=[FUSED])
    assert (run.code, run.err.count("Traceback")) == (1, len(WRONG) + 1)


def test_each_override_is_told_of_by_its_number(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TOKEN", "secret")
    loader = {"num_workers": 1, "persistent_workers": True, "pin_memory": True}
    asked = [
        {"target": "autocast", "arguments": {"dtype": "bfloat16"}, "fix": "amp"},
        {"target": "compile", "arguments": {}, "file": "train.py", "line": 3},
        {"target": "environment", "arguments": {"OMP_NUM_THREADS": 1, "TOKEN": "other"}},
        {"target": "DataLoader", "arguments": loader},
        # A call that is not meant is left alone, and not told of.
        {**FUSED, "file": "/elsewhere/train.py", "line": LINE},
    ]
    run = train(training(ADAMW), overrides=asked)
    notes = {note["number"]: note for note in run.notes("override")}
    outcomes = {number: note["outcome"] for number, note in notes.items()}
    assert outcomes == {0: "refused", 1: "refused", 2: "partly", 3: "partly"}
    assert notes[0]["why"] == "dtype: this version of perftui does not know the target autocast"
    assert notes[1]["why"].endswith("does not know the target compile")
    # What did not arrive is kept secret.
    assert notes[2]["values"] == {"OMP_NUM_THREADS": 1, "TOKEN": None}
    assert "secret" not in str(notes)
    assert notes[3]["why"] == "pin_memory: there is no GPU to copy to"
    assert notes[3]["values"] == {**loader, "pin_memory": False}
    assert notes[3]["line"] == LINE + 1
    assert "override" not in run.loader()
    assert "(None, None)" in run.out


def test_loaders_made_anew_for_each_epoch_say_it_once(train: Train) -> None:
    source = training(SGD).replace("in loader", "in made()")
    source = source.replace("loader = ", "made = lambda: ")
    asked = {"target": "DataLoader", "arguments": {"num_workers": 1}}
    assert told(train(source, overrides=[asked]))["outcome"] == "applied"


LOADERS = {
    "no workers": ({"num_workers": 0}, "prefetch_factor=3, timeout=60", ["0", "None"]),
    "a longer queue": ({"prefetch_factor": 8}, "persistent_workers=True", ["1", "8"]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("asked", "more", "made"), LOADERS.values(), ids=LOADERS)
def test_a_loader_trains_the_same_without_workers_and_with_a_longer_queue(
    train: Train, asked: dict[str, Any], more: str, made: list[str]
) -> None:
    shown = "torch.rand(1), loader.num_workers, loader.prefetch_factor"
    source = training(SGD, f", shuffle=True, num_workers=1, {more}", shown)
    plain = train(source, agent=False)
    run = train(source, overrides=[{"target": "DataLoader", "arguments": asked}])
    assert (run.code, run.err) == (0, "")
    assert run.out.split()[-2:] == made
    # The same samples in the same order, and the same random numbers between them.
    assert run.out.split()[:-2] == plain.out.split()[:-2]
    note = told(run)
    assert (note["outcome"], note["values"]) == ("applied", asked)
