"""Planted: anomaly detection was left on after the search for a NaN.

rule: debug-flags
gain: 1.64
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.autograd.set_detect_anomaly(True)  # planted


class ConvVae(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ELU(), nn.Flatten()
        )
        self.mean, self.deviation = nn.Linear(256, latent), nn.Linear(256, latent)
        self.expand = nn.Linear(latent, 256)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(8, 1, 4, 2, 1)
        )

    def forward(self, x):
        hidden = self.encoder(x)
        mean, log_deviation = self.mean(hidden), self.deviation(hidden)
        z = mean + torch.randn_like(mean) * log_deviation.exp()
        return self.decoder(self.expand(z).view(-1, 16, 4, 4)), mean, log_deviation


def elbo(x, decoded, mean, log_deviation):
    reconstruction = F.binary_cross_entropy_with_logits(decoded, x, reduction="none").sum((1, 2, 3))
    divergence = 0.5 * (mean**2 + (2 * log_deviation).exp() - 1 - 2 * log_deviation).sum(1)
    return (reconstruction + divergence).mean()


torch.manual_seed(0)
vae = ConvVae()
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3, fused=True)
images = torch.rand(8 * 100, 1, 16, 16)
for epoch in range(14):
    for batch in images.split(8):
        optimizer.zero_grad()
        loss = elbo(batch, *vae(batch))
        loss.backward()  # planted
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
