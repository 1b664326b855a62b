"""Planted: a penalty on singular values decomposes the weights anew in every step.

rule: slow-operator
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(
    nn.Linear(192, 192), nn.Tanh(), nn.Linear(192, 192), nn.Tanh(), nn.Linear(192, 4)
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def largest_by_iteration(weight: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        towards = torch.ones(weight.shape[1], device=device)
        for _ in range(8):
            towards = nn.functional.normalize(weight.T @ (weight @ towards), dim=0)
    return (weight @ towards).norm()


def spectral_penalty(net: nn.Sequential) -> torch.Tensor:
    weights = [layer.weight for layer in net if isinstance(layer, nn.Linear)]
    # fixed: return torch.stack([largest_by_iteration(one) for one in weights]).sum()
    return torch.stack([torch.linalg.svdvals(one)[0] for one in weights]).sum()  # planted


for _ in range(100):
    x = torch.randn(128, 192, device=device)
    loss = nn.functional.cross_entropy(model(x), torch.randint(0, 4, (128,), device=device))
    loss = loss + 0.001 * spectral_penalty(model)  # planted
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
