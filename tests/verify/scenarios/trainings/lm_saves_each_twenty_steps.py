"""Planted: model and optimizer are saved after every twenty steps.

rule: checkpoint, slow-steps
gain: 1.30
"""

import argparse
import tempfile
from pathlib import Path

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden)


def save(directory, step, model, optimizer):
    path = directory / f"step_{step}.pt"
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path)  # planted
    for old in sorted(directory.glob("step_*.pt"))[:-2]:
        old.unlink()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--width", type=int, default=320)
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    model = LanguageModel(8000, args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    directory = Path(tempfile.mkdtemp())
    tokens = torch.randint(0, 8000, (args.steps, 4, 9))
    for step, batch in enumerate(tokens, 1):
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.save_every == 0:
            save(directory, step, model, optimizer)  # planted
            print(f"step {step}: {loss.item():.4f}")
    for left in directory.iterdir():
        left.unlink()


if __name__ == "__main__":
    main()
