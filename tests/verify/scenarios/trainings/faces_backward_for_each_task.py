"""Planted: each task's loss is taken backward by itself, through the trunk that all share.

rule: repeated-backward
"""

import torch
from torch import nn

TASKS = ("age", "glasses", "smile", "hat")


class Faces(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
        )
        self.heads = nn.ModuleDict({task: nn.Linear(32 * 16, 1) for task in TASKS})

    def forward(self, pictures):
        features = self.trunk(pictures)
        return {task: head(features).squeeze(1) for task, head in self.heads.items()}


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
rows = 4096 if device == "cuda" else 16
model = Faces().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(120):
    pictures = torch.randn(rows, 3, 32, 32, device=device)
    truth = {task: torch.randint(0, 2, (rows,), device=device).float() for task in TASKS}
    outputs = model(pictures)
    optimizer.zero_grad()
    # fixed: loss = 0
    # fixed: for task in TASKS:
    for task in TASKS:
        # fixed: loss += nn.functional.binary_cross_entropy_with_logits(outputs[task], truth[task])
        loss = nn.functional.binary_cross_entropy_with_logits(outputs[task], truth[task])
        # fixed:
        loss.backward(retain_graph=True)  # planted
    # fixed: loss.backward()
    # fixed: optimizer.step()
    optimizer.step()
    if step % 40 == 0:
        print(step, f"{loss.item():.4f}")
