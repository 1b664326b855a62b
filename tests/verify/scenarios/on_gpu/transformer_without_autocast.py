"""Planted: a language model computes in TF32 where bfloat16 would do.

rule: tensor-cores-unused
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True)
        self.words = nn.Embedding(4096, 1024)
        self.layers = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
        self.head = nn.Linear(1024, 4096)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.words(words)))  # planted


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
text = torch.randint(0, 4096, (80, 64, 257), device="cuda")
for words in text:
    # fixed: with torch.autocast("cuda", dtype=torch.bfloat16):
    # fixed:     scores = model(words[:, :-1])
    scores = model(words[:, :-1])  # planted
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()  # planted
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
