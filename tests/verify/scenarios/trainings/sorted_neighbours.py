"""Planted: neighbours of points are found by sorting all distances, where the nearest few do.

rule: slow-operator, sorting
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
clouds, size = (32, 2048) if device == "cuda" else (4, 512)


class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 32))
        self.head = nn.Linear(32, 4)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        distances = torch.cdist(points, points)
        # fixed: nearest = distances.topk(8, largest=False).indices
        nearest = distances.sort(dim=-1).indices[..., :8]  # planted
        rows = torch.arange(len(points), device=device)[:, None, None]
        around = points[rows, nearest]
        edges = torch.cat([around, points.unsqueeze(2).expand_as(around)], -1)
        return self.head(self.edge(edges).amax(2).mean(1))


model = PointNet().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(100 if device == "cuda" else 60):
    points = torch.randn(clouds, size, 3, device=device)
    loss = nn.functional.cross_entropy(model(points), torch.randint(0, 4, (clouds,), device=device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
