"""Planted: activations are cast to bfloat16 and back around every small layer.

rule: dtype-churn
"""

import torch
from torch import nn

torch.manual_seed(0)


class Careful(nn.Module):
    """Normalises in float32, keeps activations in bfloat16."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.to(torch.float32)  # planted
        x = torch.relu(x * self.scale)
        return x.to(torch.bfloat16)  # planted


blocks = [Careful(512) for _ in range(12)]
model = nn.Sequential(*blocks)
head = nn.Linear(512, 8)
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
x, labels = torch.randn(4096, 512), torch.randint(0, 8, (4096,))
for _ in range(40):
    loss = nn.functional.cross_entropy(head(model(x).float()), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
