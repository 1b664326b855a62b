"""Planted: after every step a record with all weights' histograms is appended to a JSON log.

rule: python-bound
gain: 3.4
"""

import json
import os
import tempfile

import torch
from torch import nn

LATENT = 32


def mlp(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


def write_log(path, step, losses, networks):
    record = {"step": step, "losses": losses, "histograms": {}}
    for name, network in networks.items():
        for key, value in network.state_dict().items():
            counts = torch.histc(value.float(), 20)
            record["histograms"][f"{name}.{key}"] = [int(count) for count in counts]
            record["histograms"][f"{name}.{key}.first"] = value.flatten()[:400].tolist()
    with open(path, "a") as file:
        file.write(json.dumps(record, indent=2) + "\n")  # planted
        file.flush()
        os.fsync(file.fileno())  # planted


torch.manual_seed(0)
generator = mlp(LATENT, 128, 256, 144)
discriminator = mlp(144, 256, 128, 1)
generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
discriminator_optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.01)
criterion = nn.BCEWithLogitsLoss()
real_images = torch.rand(64 * 50, 144)
log = os.path.join(tempfile.mkdtemp(), "log.json")

step = 0
for epoch in range(16):
    for real in real_images.split(64):
        ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)

        fake = generator(torch.randn(64, LATENT))
        discriminator_optimizer.zero_grad()
        loss_d = criterion(discriminator(real), ones)
        loss_d = loss_d + criterion(discriminator(fake.detach()), zeros)
        loss_d.backward()
        discriminator_optimizer.step()

        generator_optimizer.zero_grad()
        loss_g = criterion(discriminator(fake), ones)
        loss_g.backward()
        generator_optimizer.step()

        losses = {"d": loss_d.item(), "g": loss_g.item()}
        write_log(log, step, losses, {"g": generator, "d": discriminator})  # planted
        step += 1
    print(f"epoch {epoch} d {loss_d.item():.4f} g {loss_g.item():.4f}")
