"""What the agent sees when it looks at a process or at the graph of a loss, and that looking
changes nothing."""

import sys
import tracemalloc
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from perftui.agent.recording import losses
from perftui.agent.recording.losses import terms_times_zero
from perftui.agent.recording.side_notes import Looks, counts, slowed, subnormal, tools


def trace(_: Any, frame: Any, event: str, value: Any) -> None:
    """Called for each call of Python."""


class Watch:
    def __call__(self, frame: Any, event: str, value: Any) -> None:
        """Called for each call of Python."""

    def method(self, frame: Any, event: str, value: Any) -> None:
        """Called for each call of Python."""


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    before = sys.getprofile()
    yield
    sys.setprofile(before)


@pytest.mark.parametrize(
    ("function", "name", "has_place"),
    [
        (partial(trace, None), "trace", True),
        (Watch().method, "Watch.method", True),
        (Watch(), f"{__name__}.Watch", False),
    ],
)
def test_what_traces_python_is_named(function: Any, name: str, has_place: bool) -> None:
    sys.setprofile(function)
    found, factor = tools(torch), slowed()
    sys.setprofile(None)
    (tool,) = (tool for tool in found if tool["by"] == "sys.setprofile")
    assert tool["name"] == name
    assert ("line" in tool) is has_place
    assert factor > 0


def test_allocations_and_operators_that_pass_through_python_are_seen() -> None:
    tracemalloc.start()
    try:
        assert {"by": "tracemalloc"} in tools(torch)
    finally:
        tracemalloc.stop()
    before = tools(torch)
    with FlopCounterMode(display=False):
        (mode,) = (tool for tool in tools(torch) if tool not in before)
    assert (mode["by"], "FlopCounterMode" in mode["name"]) == ("TorchDispatchMode", True)


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 64)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_hooks_and_groups_are_counted_with_the_newest_of_the_most() -> None:
    model, optimizer = trained()
    before = counts(torch, [model], [optimizer])
    assert (before["hook"], before["counts"]["parameter groups"]) == (None, 1)
    for _ in range(3):
        model[2].register_forward_hook(lambda *_: None)
    model[0].weight.register_hook(lambda gradient: gradient)
    optimizer.register_step_post_hook(trace)
    after = counts(torch, [model], [optimizer])
    names = ("forward hooks", "gradient hooks", "optimizer step post hooks")
    assert [after["counts"][name] for name in names] == [3, 1, 1]
    assert after["hook"]["file"] == __file__


def test_subnormal_numbers_are_counted_where_they_are_not_flushed() -> None:
    _, optimizer = trained()
    small, read = subnormal(torch, [optimizer])
    assert (small, read > 0) == (0, True)
    first = optimizer.param_groups[0]["params"][0]
    with torch.no_grad():
        first.fill_(1e-40)
    assert subnormal(torch, [optimizer]) == [64, read]
    with torch.no_grad():
        first.fill_(float("nan"))
    assert subnormal(torch, [optimizer]) == [0, read - 64]


def test_tensors_elsewhere_or_of_other_kinds_are_left_alone() -> None:
    short = nn.Parameter(torch.full((256,), 1e-40))
    freed = nn.Parameter(torch.zeros(512)[256:])
    freed.untyped_storage().resize_(0)
    others = (
        freed,
        nn.Parameter(torch.zeros(256, device="meta")),
        nn.Parameter(torch.zeros(256, dtype=torch.bfloat16)),
        nn.Parameter(torch.zeros(256, 2).T),
        nn.Parameter(torch.zeros(3)),
    )
    for other in others:
        assert subnormal(torch, [torch.optim.SGD([other], 0.1)]) == [0, 0]
    assert subnormal(torch, [torch.optim.SGD([short, *others], 0.1)]) == [64, 64]


def test_looking_changes_no_value_and_no_random_state() -> None:
    model, optimizer = trained()
    values, state = [p.clone() for p in model.parameters()], torch.get_rng_state()
    looks = Looks()
    assert looks.are_due()
    note = looks.look(torch, [model], [optimizer])
    assert note is not None
    assert not looks.are_due()
    assert all(map(torch.equal, values, model.parameters()))
    assert torch.equal(state, torch.get_rng_state())
    with torch.profiler.profile():
        assert looks.look(torch, [model], [optimizer]) is None


def ranges(loss: torch.Tensor) -> list[list[int]]:
    note = terms_times_zero(torch, (loss,))
    assert note is not None
    return note["ranges"]


def test_only_what_nothing_else_needs_is_for_nothing() -> None:
    hidden = torch.ones(3, requires_grad=True) * 2
    # In the order of their numbers: *, square, mean, abs, exp, mean, * weight, +.
    first, second = hidden.square().mean(), hidden.abs().exp().mean()
    for weight in (0.0, 0, torch.tensor(0.0, dtype=torch.float64)):
        assert ranges(first + weight * second)[0][-1] - 1 >= 1
    made = first + 0.0 * second
    assert terms_times_zero(torch, (made,))["nodes"] == 8
    assert ranges(first + 1e-9 * second) == []
    assert ranges(first + 0.0 * second.detach()) == []


def test_what_hooks_have_packed_is_not_unpacked() -> None:
    unpacked: list[object] = []

    def unpack(packed: object) -> object:
        unpacked.append(packed)
        return packed

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        second = torch.ones(3, requires_grad=True).abs().sum()
        loss = second + torch.tensor(0.0, dtype=torch.float64) * second.exp()
    assert ranges(loss) == []
    assert unpacked == []


def test_large_graphs_and_several_outputs_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loss = torch.ones(3, requires_grad=True).exp().sum()
    assert terms_times_zero(torch, (loss, loss)) is None
    assert terms_times_zero(torch, (torch.ones(1),)) is None
    monkeypatch.setattr(losses, "MOST_NODES", 2)
    assert terms_times_zero(torch, (loss,)) is None
