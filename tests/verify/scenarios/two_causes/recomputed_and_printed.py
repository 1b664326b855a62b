"""Planted: activations are computed twice, and every step prints a table of its samples.

fixes: recompute-off, less-often
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)) for _ in range(6)
        )
        self.head = nn.Linear(256, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            # fixed: x = x + block(x)
            x = x + checkpoint(block, x, use_reentrant=False)
        return self.head(x)


def show(step: int, scores: torch.Tensor) -> None:
    for index in range(len(scores)):
        row = " ".join(f"{score:+.3f}" for score in scores[index].tolist())
        print(f"step {step:5d} sample {index:4d} {row}")


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for step in range(2000):
    inputs, labels = torch.randn(128, 256), torch.randint(0, 4, (128,))
    scores = model(inputs)
    loss = nn.functional.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # fixed: if step % 10 == 0: show(step, scores.detach())
    show(step, scores.detach())
