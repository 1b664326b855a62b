"""Which arguments of a DataLoader may be tried, and at which call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.agent.hooks.call_site import CallSite, find_call_site
from perftui.agent.overrides.data_loader import WORKER_SETTINGS, Overrides
from perftui.agent.overrides.request import Request

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
    overrides = Overrides(Torch, make, [request])
    args, kwargs, outcome = overrides.apply(site, None, args, kwargs)
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


def test_order_of_the_request_does_not_matter() -> None:
    made, refused = apply({"persistent_workers": True, "num_workers": 1}, Map())

    assert (made["persistent_workers"], made["num_workers"], refused) == (True, 1, {})


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (Unsharded(), "shard"),
        (Map(held=(n for n in range(3))), "generators"),
        (Map(held=[Tensor()]), "GPU"),
    ],
)
def test_data_that_workers_would_repeat_or_break_stays_without(dataset: Any, why: str) -> None:
    made, refused = apply({"num_workers": 2}, dataset)

    assert "num_workers" not in made
    assert why in refused["num_workers"]


def test_an_open_file_in_the_dataset_refuses_workers(tmp_path: Path) -> None:
    with (tmp_path / "data").open("wb") as file:
        _, refused = apply({"num_workers": 2}, Map(held=file))

    assert "open files" in refused["num_workers"]


def test_an_iterable_dataset_that_asks_for_its_worker_may_have_some() -> None:
    made, refused = apply({"num_workers": 2}, Sharded())

    assert (made["num_workers"], refused) == (2, {})


def test_a_lambda_cannot_be_sent_to_spawned_workers() -> None:
    made, refused = apply(
        {"num_workers": 2}, Map(), collate_fn=lambda batch: batch, multiprocessing_context="spawn"
    )

    assert "num_workers" not in made
    assert "spawned" in refused["num_workers"]


def test_without_workers_what_only_they_can_have_is_left_out() -> None:
    given = {"prefetch_factor": 4, "persistent_workers": True, "timeout": 9, "shuffle": True}

    made, refused = apply(
        {"num_workers": 0}, Map(), num_workers=2, multiprocessing_context="fork", **given
    )

    assert refused == {}
    assert {name: made[name] for name in made if name not in ("self", "dataset")} == {
        "num_workers": 0,
        "shuffle": True,
    }


@pytest.mark.parametrize(
    ("dataset", "given", "why"),
    [
        (Sharded(), {}, "another order"),
        (Map(), {"worker_init_fn": print}, "worker_init_fn, which may set up the dataset"),
    ],
)
def test_workers_that_do_more_than_make_batches_stay(
    dataset: Any, given: dict[str, Any], why: str
) -> None:
    made, refused = apply({"num_workers": 0}, dataset, num_workers=2, prefetch_factor=4, **given)

    assert (made["num_workers"], made["prefetch_factor"]) == (2, 4)
    assert why in refused["num_workers"]


@pytest.mark.parametrize(
    ("value", "is_taken"), [(8, True), (0, False), (None, False), (True, False)]
)
def test_a_queue_has_a_number_of_batches(value: Any, is_taken: bool) -> None:
    made, refused = apply({"prefetch_factor": value}, Map(), num_workers=2)

    assert made.get("prefetch_factor") == (value if is_taken else None)
    assert ("is not a number of batches" in refused.get("prefetch_factor", "")) is not is_taken


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

    assert site is not None
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
