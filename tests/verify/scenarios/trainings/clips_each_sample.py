"""Planted: gradients are taken and clipped sample by sample, with a backward pass for each.

rule: many-backward-passes
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, MOST = 32, 1.0
model = nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(),
                      nn.Linear(128, 4)).to(device)  # fmt: skip
weights = list(model.parameters())
optimizer = torch.optim.SGD(weights, lr=0.05)


def private_gradients(rows: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    total = [torch.zeros_like(one) for one in weights]
    for row, label in zip(rows, labels, strict=True):
        loss = nn.functional.cross_entropy(model(row), label)
        grads = torch.autograd.grad(loss, weights)  # planted
        norm = torch.cat([grad.flatten() for grad in grads]).norm()
        scale = (MOST / (norm + 1e-6)).clamp(max=1.0)
        torch._foreach_add_(total, torch._foreach_mul(grads, scale))
    return total


def loss_of(values: dict, row: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(torch.func.functional_call(model, values, (row,)), label)


def gradients_at_once(rows: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    values = dict(model.named_parameters())
    each = torch.func.vmap(torch.func.grad(loss_of), (None, 0, 0))(values, rows, labels)
    norms = torch.cat([grad.flatten(1) for grad in each.values()], 1).norm(dim=1)
    scale = (MOST / (norms + 1e-6)).clamp(max=1.0)
    return [torch.einsum("n,n...->...", scale, grad) for grad in each.values()]


for _ in range(150):
    rows = torch.randn(ROWS, 32, device=device)
    labels = rows[:, :4].argmax(1)
    # fixed: grads = gradients_at_once(rows, labels)
    grads = private_gradients(rows, labels)  # planted
    for weight, grad in zip(weights, grads, strict=True):
        weight.grad = grad / ROWS
    optimizer.step()
print(f"norm {sum(float(one.detach().norm()) for one in weights):.6f}", flush=True)
