"""Planted: the default data type is float64, and the evaluation records gradients.

fixes: default-dtype-off, no-grad or evaluate-less-often
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
# fixed:
torch.set_default_dtype(torch.float64)
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(32 * 14 * 14, 10),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
pictures, digits = torch.randn(1024, 1, 28, 28), torch.randint(0, 10, (1024,))


# fixed: @torch.no_grad()
# fixed: def accuracy() -> float:
def accuracy() -> float:
    net.eval()
    right = 0
    for start in range(0, 1024, 64):
        out = net(pictures[start : start + 64])
        right += int((out.argmax(1) == digits[start : start + 64]).sum())
    net.train()
    return right / 1024


for step in range(2000):
    chosen = torch.randint(0, 1024, (32,))
    loss = nn.functional.cross_entropy(net(pictures[chosen]), digits[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 14:
        accuracy()
