"""Planted: the collate function pads and masks token by token in Python.

rule: input-in-main-thread
gain: 1.40
"""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader

VOCABULARY = 400


def make_sentences(count):
    rng = random.Random(0)
    sentences = []
    for _ in range(count):
        words = [rng.randrange(1, VOCABULARY) for _ in range(rng.randint(40, 96))]
        sentences.append((words, sum(words) % 2))
    return sentences


def pad_batch(samples):
    longest = max(len(words) for words, _ in samples)
    tokens = torch.zeros(len(samples), longest, dtype=torch.long)
    mask = torch.ones(len(samples), longest, dtype=torch.bool)
    for row, (words, _) in enumerate(samples):
        for column, word in enumerate(words):
            tokens[row, column] = word  # planted
            mask[row, column] = False  # planted
    return tokens, mask, torch.tensor([label for _, label in samples])


class Classifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 2, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens, mask):
        encoded = self.encoder(self.embed(tokens), src_key_padding_mask=mask)
        return self.head(encoded.mean(1))


torch.manual_seed(0)
loader = DataLoader(  # planted
    make_sentences(1600), batch_size=16, shuffle=True, collate_fn=pad_batch
)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
for epoch in range(4):
    model.train()
    correct = 0
    for tokens, mask, label in loader:
        optimizer.zero_grad()
        logits = model(tokens, mask)
        loss = nn.functional.cross_entropy(logits, label)
        loss.backward()
        optimizer.step()
        correct += int((logits.argmax(1) == label).sum())
    print(f"epoch {epoch}: accuracy {correct / 1600:.3f}")
