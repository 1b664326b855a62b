"""Planted: garbage is collected every twenty steps, over a large buffer of Python objects.

rule: gc-pauses
gain: 2.5
"""

import gc
import random
from collections import namedtuple

import torch
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state info")


class ReplayBuffer:
    def __init__(self, size):
        rng = random.Random(0)
        self.rng = rng
        self.items = []
        for index in range(size):
            state = [rng.random(), rng.random(), rng.random(), rng.random()]
            self.items.append(
                Transition(state, rng.randrange(2), rng.random(), list(state), {"episode": [index]})
            )

    def sample(self, count):
        chosen = self.rng.choices(self.items, k=count)
        return [Transition(*item[:4], dict(item.info)) for item in chosen]


def tensors(batch):
    return (
        torch.tensor([t.state for t in batch]),
        torch.tensor([t.action for t in batch]),
        torch.tensor([t.reward for t in batch]),
        torch.tensor([t.next_state for t in batch]),
    )


def main():
    torch.manual_seed(0)
    q = nn.Sequential(
        nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 2)
    )
    target = nn.Sequential(nn.Linear(4, 256), nn.ReLU(), nn.Linear(256, 2))
    optimizer = torch.optim.SGD(q.parameters(), lr=1e-3)
    buffer = ReplayBuffer(15_000)
    for step in range(800):
        batch = buffer.sample(128)
        states, actions, rewards, following = tensors(batch)
        with torch.no_grad():
            best = rewards + 0.99 * target(following).max(1).values
        values = q(states).gather(1, actions[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(values, best)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            gc.collect()  # planted
        if step % 100 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
