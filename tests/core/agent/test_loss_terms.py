"""Terms of a loss that are multiplied by 0, as the graph of a backward pass shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perftui.agent.recording import losses
from perftui.agent.recording.losses import terms_times_zero

if TYPE_CHECKING:
    import torch as torch_module


def ranges(torch: torch_module, loss: torch_module.Tensor) -> list[list[int]]:
    note = terms_times_zero(torch, (loss,))
    assert note is not None
    return note["ranges"]


def test_only_what_nothing_else_needs_is_for_nothing() -> None:
    torch = pytest.importorskip("torch")
    hidden = torch.ones(3, requires_grad=True) * 2
    # In the order of their numbers: *, square, mean, abs, exp, mean, * weight, +.
    first, second = hidden.square().mean(), hidden.abs().exp().mean()
    for weight in (0.0, 0, torch.tensor(0.0, dtype=torch.float64)):
        assert ranges(torch, first + weight * second)[0][-1] - 1 >= 1
    made = first + 0.0 * second
    assert terms_times_zero(torch, (made,))["nodes"] == 8
    assert ranges(torch, first + 1e-9 * second) == []
    assert ranges(torch, first + 0.0 * second.detach()) == []


def test_what_hooks_have_packed_is_not_unpacked() -> None:
    torch = pytest.importorskip("torch")
    unpacked: list[object] = []

    def unpack(packed: object) -> object:
        unpacked.append(packed)
        return packed

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        second = torch.ones(3, requires_grad=True).abs().sum()
        loss = second + torch.tensor(0.0, dtype=torch.float64) * second.exp()
    assert ranges(torch, loss) == []
    assert unpacked == []


def test_large_graphs_and_several_outputs_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")
    loss = torch.ones(3, requires_grad=True).exp().sum()
    assert terms_times_zero(torch, (loss, loss)) is None
    assert terms_times_zero(torch, (torch.ones(1),)) is None
    monkeypatch.setattr(losses, "MOST_NODES", 2)
    assert terms_times_zero(torch, (loss,)) is None
