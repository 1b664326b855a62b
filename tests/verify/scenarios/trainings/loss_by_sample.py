"""Planted: the loss of a detector is summed up sample by sample, and box by box.

rule: loop-of-indexing
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 8 * 5),
).to(device)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
count = 800 if device == "cuda" else 1600
images, boxes = torch.randn(count, 3, 32, 32), torch.rand(count, 8, 5)


def detection_loss(predicted: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    # fixed: total = (predicted - wanted)[..., :4].abs().sum()
    # fixed: return (total + (predicted - wanted)[..., 4].square().sum()) / len(predicted)
    total = torch.zeros((), device=device)
    for sample in range(len(predicted)):  # planted
        for box in range(predicted.shape[1]):  # planted
            place = predicted[sample, box, :4] - wanted[sample, box, :4]  # planted
            sure = predicted[sample, box, 4] - wanted[sample, box, 4]  # planted
            total = total + place.abs().sum() + sure**2  # planted
    return total / len(predicted)


for image, target in DataLoader(TensorDataset(images, boxes), batch_size=16):
    image, target = image.to(device), target.to(device)
    loss = detection_loss(model(image).view(-1, 8, 5), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
