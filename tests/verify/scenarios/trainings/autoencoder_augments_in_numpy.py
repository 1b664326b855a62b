"""Planted: images are rotated, cropped and blurred in NumPy, in the training process.

rule: input-in-main-thread
gain: 2.6
"""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Augmented(Dataset):
    """Grey images of 72 x 72, augmented to 64 x 64."""

    def __init__(self, count):
        self.images = np.random.default_rng(3).random((count, 72, 72), dtype=np.float32)

    def __len__(self):
        return len(self.images)

    def rotate(self, image, angle):
        ys, xs = np.mgrid[0:72, 0:72].astype(np.float32) - 36  # planted
        cos, sin = np.cos(angle), np.sin(angle)
        y = np.clip(np.rint(cos * ys - sin * xs + 36), 0, 71).astype(np.int64)  # planted
        x = np.clip(np.rint(sin * ys + cos * xs + 36), 0, 71).astype(np.int64)  # planted
        return image[y, x]  # planted

    def blur(self, image):
        padded = np.pad(image, 2, mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))
        return windows.mean(axis=(2, 3))  # planted

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        image = self.rotate(self.images[i], rng.uniform(-0.3, 0.3))
        image = self.blur(image)
        top, left = rng.integers(0, 8, 2)
        image = image[top : top + 64, left : left + 64]
        return torch.from_numpy(np.ascontiguousarray(image, dtype=np.float32))[None]


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.down2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up1 = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.up2 = nn.ConvTranspose2d(8, 1, 2, stride=2)

    def forward(self, x):
        hidden = F.relu(self.down2(F.relu(self.down1(x))))
        return torch.sigmoid(self.up2(F.relu(self.up1(hidden))))


def main(args):
    torch.manual_seed(args.seed)
    loader = DataLoader(
        Augmented(args.images), batch_size=args.batch_size, drop_last=True
    )  # planted
    net = AutoEncoder()
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        running = 0.0
        for images in loader:
            opt.zero_grad()
            loss = F.mse_loss(net(images), images)
            loss.backward()
            opt.step()
            running += loss.item()
        print(f"[{epoch + 1}/{args.epochs}] loss={running / len(loader):.5f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    main(parser.parse_args())
