"""Planted: the averaged model is a deep copy that is made anew after every step.

rule: python-bound, per-parameter-loop
gain: 2.1
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, width)
        self.fc2 = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc2(F.relu(self.fc1(self.norm(x))))


class Vae(nn.Module):
    def __init__(self, inputs=196, width=96, latent=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, width), *[Block(width) for _ in range(4)])
        self.to_latent = nn.Linear(width, 2 * latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, width), *[Block(width) for _ in range(4)], nn.Linear(width, inputs)
        )

    def forward(self, x):
        mean, log_var = self.to_latent(self.encoder(x)).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
        return self.decoder(z), divergence


class AveragedModel:
    def __init__(self, model, decay):
        self.decay = decay
        self.average = copy.deepcopy(model)

    def update(self, model):
        fresh = copy.deepcopy(model)  # planted
        old = self.average.state_dict()
        state = {key: value.lerp(old[key], self.decay) for key, value in model.state_dict().items()}
        fresh.load_state_dict(state)  # planted
        self.average = fresh


torch.manual_seed(0)
vae = Vae()
average = AveragedModel(vae, 0.99)
optimizer = torch.optim.SGD(vae.parameters(), lr=1e-3)
digits = torch.rand(32 * 40, 196)
for epoch in range(24):
    for batch in digits.split(32):
        decoded, divergence = vae(batch)
        loss = F.mse_loss(decoded, batch) + 1e-3 * divergence
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(vae)  # planted
    print(f"epoch {epoch} loss {loss.item():.5f}")
