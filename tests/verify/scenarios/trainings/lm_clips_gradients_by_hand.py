"""Planted: gradients are clipped and counted parameter by parameter, with Python numbers.

rule: per-parameter-loop, python-bound
gain: 1.53
"""

import torch
import torch.nn as nn

VOCABULARY, WIDTH, LENGTH = 256, 32, 16


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mix = nn.Linear(LENGTH, LENGTH)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2)
        return x + self.down(torch.relu(self.up(self.norm(x))))


class MixerLM(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def clip(parameters, limit):
    total, bad = 0.0, 0
    for p in parameters:
        total += (p.grad**2).sum().item()  # planted
        bad += torch.isnan(p.grad).any().item()  # planted
        bad += torch.isinf(p.grad).any().item()  # planted
    norm = total**0.5
    for p in parameters:
        p.grad = p.grad * min(1.0, limit / (norm + 1e-6))  # planted
    return norm, bad


torch.manual_seed(0)
model = MixerLM(30)
parameters = list(model.parameters())
optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
tokens = torch.randint(0, VOCABULARY, (380, 8, LENGTH + 1))
for step, batch in enumerate(tokens):
    logits = model(batch[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    norm, bad = clip(parameters, 1.0)  # planted
    if not bad:
        optimizer.step()
    if step % 30 == 0:
        print(f"step {step} loss {loss.item():.4f} norm {norm:.3f}")
