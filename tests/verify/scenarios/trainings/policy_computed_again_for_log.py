"""Planted: the network is called again on the same batch, for the accuracy and for the entropy.

rule: repeated-forward, repeated-work, unread-result
gain: 2.1
"""

import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, observations, actions, width=512):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(observations, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.actor = nn.Linear(width, actions)
        self.critic = nn.Linear(width, 1)

    def forward(self, observation):
        hidden = self.body(observation)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1)


def returns_of(rewards, gamma=0.97):
    total, found = torch.zeros(rewards.shape[1]), []
    for reward in rewards.flip(0):
        total = reward + gamma * total
        found.append(total)
    return torch.stack(found[::-1])


def update(policy, optimizer, observations, actions, returns):
    distribution, values = policy(observations)
    advantage = returns - values.detach()
    policy_loss = -(distribution.log_prob(actions) * advantage).mean()
    value_loss = nn.functional.mse_loss(values, returns)
    entropy = policy(observations)[0].entropy().mean()  # planted
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    greedy = policy(observations)[0].probs.argmax(-1)  # planted
    return loss.item(), (greedy == actions).float().mean().item()


def main():
    torch.manual_seed(0)
    policy = Policy(64, 6)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=3e-4, foreach=True)
    for iteration in range(480):
        rewards = torch.rand(8, 64)
        observations = torch.randn(512, 64)
        actions = torch.randint(0, 6, (512,))
        loss, agreement = update(
            policy, optimizer, observations, actions, returns_of(rewards).flatten()
        )
        if iteration % 120 == 0:
            print(f"iteration {iteration} loss {loss:.4f} agreement {agreement:.3f}")


main()
