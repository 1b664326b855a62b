"""Nothing planted: a generator and a discriminator of convolutions take turns.

rule: healthy
"""

import torch
from torch import nn

LATENT = 48


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(LATENT, 96, 4),
            nn.BatchNorm2d(96),
            nn.ReLU(),
            nn.ConvTranspose2d(96, 64, 4, stride=2, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.ConvTranspose2d(64, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.layers(z[:, :, None, None])


def make_discriminator():
    return nn.Sequential(
        nn.Conv2d(1, 64, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Conv2d(64, 96, 4, stride=2, padding=1),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(96 * 16, 1),
    )


def main():
    torch.manual_seed(0)
    generator, discriminator = Generator(), make_discriminator()
    optimizer_g = torch.optim.Adam(generator.parameters(), 2e-4, (0.5, 0.999), fused=True)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), 2e-4, (0.5, 0.999), fused=True)
    criterion = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(48, 1), torch.zeros(48, 1)
    images = torch.rand(48 * 30, 1, 16, 16) * 2 - 1
    for epoch in range(11):
        for real in images.split(48):
            fake = generator(torch.randn(48, LATENT))
            loss_d = criterion(discriminator(real), ones)
            loss_d = loss_d + criterion(discriminator(fake.detach()), zeros)
            optimizer_d.zero_grad()
            loss_d.backward()
            optimizer_d.step()

            discriminator.requires_grad_(False)
            loss_g = criterion(discriminator(fake), ones)
            optimizer_g.zero_grad()
            loss_g.backward()
            optimizer_g.step()
            discriminator.requires_grad_(True)
        print(f"epoch {epoch}: d {loss_d.item():.4f} g {loss_g.item():.4f}")


if __name__ == "__main__":
    main()
