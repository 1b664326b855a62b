"""Planted: each bar of a song goes backward by itself, through the graphs of all bars before.

rule: repeated-backward, kept-graph
"""

import torch
from torch import nn

BARS, NOTES = 10, 128


class Composer(nn.Module):
    def __init__(self):
        super().__init__()
        self.notes = nn.Embedding(NOTES, 96)
        self.cell = nn.GRU(96, 192, batch_first=True)
        self.next = nn.Linear(192, NOTES)

    def forward(self, bar, memory):
        found, memory = self.cell(self.notes(bar), memory)
        return self.next(found), memory


torch.manual_seed(0)
model = Composer()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for song in range(24):
    bars = torch.randint(0, NOTES, (BARS, 8, 17))
    memory = torch.zeros(1, 8, 192)
    optimizer.zero_grad()
    for bar in bars:
        scores, memory = model(bar[:, :-1], memory)  # planted
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), bar[:, 1:].flatten())
        loss.backward(retain_graph=True)  # planted
    optimizer.step()
    print(song, f"{loss.item():.3f}")
