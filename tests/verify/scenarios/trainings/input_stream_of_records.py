"""Planted: one worker parses a stream of records, line by line, for an iterable data set.

rule: input-worker-bound
"""

import json
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __init__(self, records: int) -> None:
        self.records = records
        numbers = [[(row + at) % 97 / 97 for at in range(600)] for row in range(97)]
        self.texts = [json.dumps({"values": row}) for row in numbers]

    def __iter__(self) -> Iterator[tuple[torch.Tensor, float]]:
        for number in range(self.records):
            values = json.loads(self.texts[number % 97])["values"]  # planted
            scaled = [round((value - 0.5) ** 2, 6) for value in values]  # planted
            yield torch.tensor(scaled[:64]), float(number % 2)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Stream(9000), batch_size=32, num_workers=1)
    for features, target in loader:
        logits = model(features).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, target.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
