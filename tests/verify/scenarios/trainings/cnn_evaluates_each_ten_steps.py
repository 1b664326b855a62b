"""Planted: the whole test set is evaluated after every ten steps.

rule: evaluation
gain: 2.7
"""

import torch
from torch import nn


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    correct = 0
    for x, y in zip(images.split(32), labels.split(32), strict=True):
        correct += (model(x).argmax(1) == y).sum().item()  # planted
    model.train()
    return correct / len(images)


def main():
    torch.manual_seed(0)
    train_x, train_y = torch.rand(32 * 100, 1, 32, 32), torch.randint(0, 10, (3200,))
    test_x, test_y = torch.rand(1024, 1, 32, 32), torch.randint(0, 10, (1024,))
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    step, best = 0, 0.0
    for _ in range(5):
        for x, y in zip(train_x.split(32), train_y.split(32), strict=True):
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 10 == 0:
                accuracy = evaluate(model, test_x, test_y)  # planted
                best = max(best, accuracy)
        print(f"step {step}: loss {loss.item():.4f} best {best:.3f}")


if __name__ == "__main__":
    main()
