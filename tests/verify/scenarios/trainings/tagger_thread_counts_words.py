"""Planted: a thread of plain Python counts words meanwhile, and holds the interpreter's lock.

rule: gil-contention
gain: 3.3
"""

import collections
import random
import threading

import torch
from torch import nn


class WordCounter(threading.Thread):
    """Counts pairs of words again and again, for a dashboard."""

    def __init__(self, words):
        super().__init__(daemon=True)
        self.words = words
        self.common = []
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.is_set():
            pairs = collections.Counter()
            for left, right in zip(self.words, self.words[1:], strict=False):
                pairs[left, right] += 1  # planted
            self.common = pairs.most_common(10)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))
        self.head = nn.Linear(64, 12)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.head(x)


def main():
    torch.manual_seed(0)
    rng = random.Random(0)
    words = [rng.randrange(1000) for _ in range(100_000)]
    counter = WordCounter(words)
    counter.start()  # planted
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens = torch.tensor(words).view(-1, 10, 20)
    for epoch in range(4):
        for batch in tokens[:400]:
            loss = nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten() % 12)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")
    counter.stopped.set()
    counter.join()


if __name__ == "__main__":
    main()
