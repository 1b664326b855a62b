"""Planted: the model walks over trees in Python, with a few tiny operators for each node.

rule: python-bound, loop-of-indexing
"""

import torch
from torch import nn

torch.manual_seed(0)


class Node:
    def __init__(self, depth: int) -> None:
        self.word = int(torch.randint(0, 300, ()))
        self.children = [Node(depth - 1) for _ in range(2)] if depth else []


class TreeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Parameter(torch.randn(300, 16))
        self.join = nn.Linear(32, 16)
        self.head = nn.Linear(16, 2)

    def describe(self, node: Node) -> str:
        """A readable form that nobody reads."""
        inner = " ".join(self.describe(child) for child in node.children)  # planted
        return f"({node.word} {inner})"  # planted

    def encode(self, node: Node) -> torch.Tensor:
        self.describe(node)  # planted
        if not node.children:
            return self.words[node.word]
        left, right = (self.encode(child) for child in node.children)  # planted
        return torch.tanh(self.join(torch.cat([left, right])))  # planted

    def forward(self, trees: list[Node]) -> torch.Tensor:
        return self.head(torch.stack([self.encode(tree) for tree in trees]))  # planted


model = TreeNet()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
forest = [[Node(7) for _ in range(2)] for _ in range(10)]
for step in range(70):
    loss = nn.functional.cross_entropy(model(forest[step % 10]), torch.tensor([0, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
