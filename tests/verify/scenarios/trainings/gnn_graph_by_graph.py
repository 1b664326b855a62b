"""Planted: the forward pass takes the graphs of a batch one by one, and their nodes likewise.

rule: loop-of-indexing
gain: 21.4
"""

import torch
import torch.nn as nn

NODES, FEATURES = 12, 16


def random_graphs(count):
    adjacency = (torch.rand(count, NODES, NODES) < 0.3).float()
    adjacency = ((adjacency + adjacency.transpose(1, 2)) > 0).float()
    features = torch.randn(count, NODES, FEATURES)
    target = (adjacency.sum((1, 2)) > 0.5 * NODES * NODES).long()
    return features, adjacency, target


class MessagePassing(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.own = nn.Linear(inputs, outputs)
        self.neighbour = nn.Linear(inputs, outputs)

    def forward(self, features, adjacency):
        graphs = []
        for g in range(features.shape[0]):
            nodes = []
            for n in range(features.shape[1]):
                message = adjacency[g, n] @ features[g]  # planted
                nodes.append(self.own(features[g, n]) + self.neighbour(message))  # planted
            graphs.append(torch.relu(torch.stack(nodes)))  # planted
        return torch.stack(graphs)


class Gnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = MessagePassing(FEATURES, 32)
        self.second = MessagePassing(32, 32)
        self.head = nn.Linear(32, 2)

    def forward(self, features, adjacency):
        hidden = self.second(self.first(features, adjacency), adjacency)
        return self.head(hidden.mean(1))


def main():
    torch.manual_seed(0)
    features, adjacency, target = random_graphs(8 * 40)
    net = Gnn()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for epoch in range(8):
        for batch in torch.randperm(len(target)).split(8):
            loss = nn.functional.cross_entropy(
                net(features[batch], adjacency[batch]), target[batch]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
