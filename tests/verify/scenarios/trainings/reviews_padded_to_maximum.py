"""Planted: short reviews are padded to 192 words each, whatever the longest of a batch.

rule: padding-waste
gain: 2.00
"""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LONGEST = 192


class Reviews(Dataset):
    """Each review as its words and its stars."""

    def __init__(self, count):
        draw = random.Random(3)
        self.reviews = []
        for _ in range(count):
            stars = draw.randrange(5)
            words = min(LONGEST, 6 + int(draw.expovariate(1 / 14)))
            self.reviews.append(([draw.randrange(1, 2500) for _ in range(words)], stars))

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, index):
        words, stars = self.reviews[index]
        return torch.tensor(words), stars


def to_batch(samples):
    words = [nn.functional.pad(text, (0, LONGEST - len(text))) for text, _ in samples]  # planted
    return torch.stack(words), torch.tensor([stars for _, stars in samples])


class Rater(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.words = nn.Embedding(2500, width, padding_idx=0)
        self.mix = nn.MultiheadAttention(width, 4, batch_first=True)
        self.think = nn.Sequential(nn.Linear(width, 256), nn.GELU(), nn.Linear(256, width))
        self.stars = nn.Linear(width, 5)

    def forward(self, text):
        is_padding = text == 0
        state = self.words(text)
        state = state + self.mix(state, state, state, is_padding, need_weights=False)[0]
        state = state + self.think(state)
        return self.stars(state.masked_fill(is_padding.unsqueeze(-1), 0).sum(1))


torch.manual_seed(3)
torch.set_num_threads(1)
loader = DataLoader(Reviews(1600), 16, shuffle=True, collate_fn=to_batch)  # planted
model = Rater()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for epoch in range(2):
    total = 0.0
    for text, stars in loader:
        loss = nn.functional.cross_entropy(model(text), stars)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    print(f"epoch {epoch}: {float(total) / len(loader):.4f}")
