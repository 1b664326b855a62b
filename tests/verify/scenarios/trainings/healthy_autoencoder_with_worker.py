"""Nothing planted: one worker is far ahead of the model.

rule: healthy
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(2)
        self.signals = torch.rand(count, 1024, generator=generator)

    def __len__(self):
        return len(self.signals)

    def __getitems__(self, indices):
        return self.signals[indices]


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(1024, 1536), nn.ReLU(), nn.Linear(1536, 64))
        self.decoder = nn.Sequential(nn.Linear(64, 1536), nn.ReLU(), nn.Linear(1536, 1024))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main():
    torch.manual_seed(0)
    loader = DataLoader(
        Signals(256 * 30),
        batch_size=256,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
        collate_fn=lambda batch: batch,
    )
    model = AutoEncoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(8):
        total = torch.zeros(())
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: {total.item() / len(loader):.5f}")


if __name__ == "__main__":
    main()
