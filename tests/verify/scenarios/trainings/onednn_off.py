"""Planted: oneDNN is switched off, to have the same results on two machines.

rule: onednn-off
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.backends.mkldnn.enabled = False  # planted


class Waves(nn.Module):
    """Convolutions over time."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(8, 64, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(64, 64, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(64, 64, 5, padding=2),
        )
        self.head = nn.Linear(64, 10)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Logits of each wave."""
        return self.head(self.layers(waves).mean(2))


model = Waves()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
waves = torch.randn(256, 8, 256)
labels = torch.randint(0, 10, (256,))
for step in range(80):
    at = step % 8 * 32
    loss = nn.functional.cross_entropy(model(waves[at : at + 32]), labels[at : at + 32])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
