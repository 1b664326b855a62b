"""Planted: after each step a text is generated token by token, to be looked at.

rule: evaluation
"""

import torch
from torch import nn

LETTERS, LENGTH = 40, 48


class Recipes(nn.Module):
    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, width)
        self.places = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, LETTERS)

    def forward(self, text):
        mask = nn.Transformer.generate_square_subsequent_mask(text.shape[1])
        seen = self.letters(text) + self.places[: text.shape[1]]
        return self.head(self.layers(seen, mask, is_causal=True))

    @torch.no_grad()
    def invent(self):
        text = torch.zeros(1, 1, dtype=torch.long)
        for _ in range(LENGTH - 1):
            likely = self(text)[:, -1].softmax(-1)  # planted
            text = torch.cat([text, torch.multinomial(likely, 1)], 1)
        return text


torch.manual_seed(0)
corpus = torch.randint(0, LETTERS, (20000,))
model = Recipes()
optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
for step in range(120):
    at = torch.randint(0, len(corpus) - LENGTH - 1, (16, 1)) + torch.arange(LENGTH + 1)
    text = corpus[at]
    loss = nn.functional.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    example = model.invent()
    if step % 30 == 0:
        print(step, f"{loss.item():.3f}", example[0, :12].tolist())
