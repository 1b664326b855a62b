"""Nothing planted: the data is in memory and the time goes to the model.

rule: healthy
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(512, 6144), nn.ReLU(), nn.Linear(6144, 512), nn.ReLU(), nn.Linear(512, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
features = torch.rand(32 * 120, 512)
loader = DataLoader(TensorDataset(features, features.sum(1)), batch_size=32)
for batch, target in loader:
    loss = nn.functional.mse_loss(model(batch).squeeze(1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.9f}", flush=True)
