"""Planted: an optimizer of one's own updates a transformer's 200 tensors in a Python loop.

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


torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Embedding(500, 128), nn.TransformerEncoder(layer, 16), nn.Linear(128, 500))
optimizer = Lion(model.parameters(), lr=1e-4)  # planted

tokens = torch.randint(0, 500, (4, 17))
for _ in range(60):
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
