"""Planted: two hundred environments are stepped one after the other in Python.

rule: python-bound
gain: 1.59
"""

import math
import random

import torch
from torch import nn
from torch.distributions import Categorical


class CartPole:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.state = [self.rng.uniform(-0.05, 0.05) for _ in range(4)]
        return self.state

    def step(self, action):
        x, speed, angle, turn = self.state
        for _ in range(4):
            force = 10.0 if action else -10.0  # planted
            cos, sin = math.cos(angle), math.sin(angle)  # planted
            pushed = (force + 0.05 * turn * turn * sin) / 1.1  # planted
            bend = (9.8 * sin - cos * pushed) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))  # planted
            push = pushed - 0.05 * bend * cos / 1.1  # planted
            x, speed = x + 0.005 * speed, speed + 0.005 * push  # planted
            angle, turn = angle + 0.005 * turn, turn + 0.005 * bend  # planted
        self.state = [x, speed, angle, turn]
        done = abs(x) > 2.4 or abs(angle) > 0.21
        return self.state, 1.0, done


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 2))

    def forward(self, states):
        return Categorical(logits=self.net(states))


def rollout(agent, environments, steps):
    log_probs, rewards = [], []
    for _ in range(steps):
        states = torch.tensor([environment.state for environment in environments])
        distribution = agent(states)
        actions = distribution.sample()
        log_probs.append(distribution.log_prob(actions))
        gained = []
        for environment, action in zip(environments, actions.tolist(), strict=True):
            _, reward, done = environment.step(action)  # planted
            gained.append(reward)
            if done:
                environment.reset()
        rewards.append(torch.tensor(gained))
    return torch.stack(log_probs), torch.stack(rewards)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    environments = [CartPole(seed) for seed in range(200)]
    agent = Agent()
    optimizer = torch.optim.SGD(agent.parameters(), lr=0.01)
    for update in range(700):
        log_probs, rewards = rollout(agent, environments, 8)  # planted
        returns = rewards.flip(0).cumsum(0).flip(0)
        loss = -(log_probs * (returns - returns.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 30 == 0:
            print(f"update {update}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
