"""Planted: the odd ranks tokenize their samples anew in every step, and the others wait for them.

rule: straggler
setup: torchrun --nproc-per-node 2
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = {f"word{number}": number for number in range(5000)}


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(5000, 128)
        self.layers = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 4))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.embedding(tokens))


def tokenize(texts: list[str]) -> torch.Tensor:
    return torch.tensor([[VOCABULARY[word] for word in text.split()] for text in texts])  # planted


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    model = DistributedDataParallel(Classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    texts = [" ".join(f"word{(at * 7 + one) % 5000}" for at in range(4000)) for one in range(64)]
    tokens = torch.randint(0, 5000, (64, 200))
    labels = torch.randint(0, 4, (64,))
    for _ in range(100):
        batch = tokenize(texts)[:, :200] if rank % 2 else tokens
        loss = nn.functional.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


main()
