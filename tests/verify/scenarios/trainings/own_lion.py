"""Planted: an optimizer of one's own updates the 200 tensors of a deep network in a Python loop.

rule: optimizer-single-tensor
"""

from collections.abc import Iterable

import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    """The sign of an average of gradients."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float) -> None:
        super().__init__(params, {"lr": lr, "beta1": 0.9, "beta2": 0.99, "decay": 0.01})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:  # planted
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                average = state["average"]
                p.mul_(1 - group["lr"] * group["decay"])  # planted
                update = average * group["beta1"] + p.grad * (1 - group["beta1"])  # planted
                p.add_(update.sign_(), alpha=-group["lr"])  # planted
                average.mul_(group["beta2"]).add_(p.grad, alpha=1 - group["beta2"])  # planted


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.1 * torch.relu(self.inner(x)) + x


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(40, 96), *(Layer(96) for _ in range(100)), nn.Linear(96, 1))
optimizer = Lion(model.parameters(), lr=1e-4)  # planted

features = torch.randn(64, 40)
for _ in range(250):
    loss = nn.functional.mse_loss(model(features).squeeze(1), features.sum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
