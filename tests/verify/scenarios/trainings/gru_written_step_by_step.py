"""Planted: a recurrent layer written out gate by gate, in a loop over time.

rule: loop-of-indexing, python-bound
gain: 1.73
"""

import torch
from torch import nn


class Gru(nn.Module):
    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.hidden = hidden
        self.update = nn.Linear(inputs + hidden, hidden)
        self.reset = nn.Linear(inputs + hidden, hidden)
        self.candidate = nn.Linear(inputs + hidden, hidden)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.hidden)
        outputs = []
        for t in range(x.shape[1]):
            joined = torch.cat([x[:, t], h], dim=1)  # planted
            z = torch.sigmoid(self.update(joined))  # planted
            r = torch.sigmoid(self.reset(joined))  # planted
            n = torch.tanh(self.candidate(torch.cat([x[:, t], r * h], dim=1)))  # planted
            h = (1 - z) * n + z * h  # planted
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = Gru(24, 48)
        self.head = nn.Linear(48, 5)

    def forward(self, x):
        return self.head(self.rnn(x))


def train(model, optimizer, batches):
    model.train()
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
    return loss.item()


def validate(model, batches):
    model.eval()
    with torch.no_grad():
        return sum(float((model(x).argmax(-1) == y).float().mean()) for x, y in batches)


torch.manual_seed(0)
data = [(torch.randn(4, 64, 24), torch.randint(0, 5, (4, 64))) for _ in range(50)]
model = Tagger()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(10):
    loss = train(model, optimizer, data[2:])
    print(f"epoch {epoch}: loss {loss:.4f}, accuracy {validate(model, data[:2]) / 2:.3f}")
