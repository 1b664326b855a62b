"""Nothing planted: no module, no loader, two matrices and their product.

rule: healthy
"""

import torch

torch.manual_seed(0)
observed = torch.rand(1500, 48) @ torch.rand(48, 1200)
left = torch.rand(1500, 64, requires_grad=True)
right = torch.rand(64, 1200, requires_grad=True)
optimizer = torch.optim.SGD([left, right], lr=1e-6)

for step in range(850):
    optimizer.zero_grad()
    error = (left @ right - observed).square().sum()
    error.backward()
    optimizer.step()
    if step % 200 == 0:
        print(step, error.item())
