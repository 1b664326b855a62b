"""A GPT without a data loader: ``python language.py SECONDS LAYERS [compile]``."""

import sys
import time

import torch
from torch import nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention

WIDTH, HEADS, WORDS, LENGTH, BATCH = 768, 12, 8192, 512, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.queries, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.queries(self.before(x)).view(batch, length, 3, HEADS, -1)
        attended = scaled_dot_product_attention(*heads.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        added: torch.Tensor = x + self.down(gelu(self.up(self.between(x))))
        return added


class Network(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        places = torch.arange(words.shape[1], device=words.device)
        logits: torch.Tensor = self.head(
            self.norm(self.blocks(self.words(words) + self.places(places)))
        )
        return logits


def main(seconds: float, layers: int, *, compiled: bool) -> None:
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Network(layers).cuda()
    network = torch.compile(model) if compiled else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=compiled)
    text = torch.randint(WORDS, (256, LENGTH + 1))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        words = text[torch.randint(len(text), (BATCH,))].cuda()
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = network(words[:, :-1])
            loss = cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), compiled="compile" in sys.argv)
