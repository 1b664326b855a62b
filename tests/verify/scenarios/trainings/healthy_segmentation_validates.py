"""Nothing planted: a short validation behind each epoch, and the best weights are saved.

rule: healthy
"""

import io

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 48, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(48, 48, 3, padding=1)
        self.up = nn.ConvTranspose2d(48, 16, 2, stride=2)
        self.leave = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        wide = F.relu(self.enter(x))
        deep = F.relu(self.middle(F.relu(self.down(wide))))
        return self.leave(torch.cat([wide, F.relu(self.up(deep))], dim=1))


def train(model, optimizer, images, masks):
    model.train()
    for image, mask in zip(images.split(2), masks.split(2), strict=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(image), mask)
        loss.backward()
        optimizer.step()
    return loss.item()


def validate(model, images, masks):
    model.eval()
    with torch.inference_mode():
        return (model(images).argmax(1) == masks).float().mean().item()


def main():
    torch.manual_seed(0)
    images, masks = torch.rand(2 * 121, 3, 48, 48), torch.randint(0, 4, (2 * 121, 48, 48))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    best = 0.0
    for epoch in range(28):
        loss = train(model, optimizer, images[2:], masks[2:])
        accuracy = validate(model, images[:2], masks[:2])
        print(f"epoch {epoch}: loss {loss:.4f}, accuracy {accuracy:.4f}")
        if accuracy > best:
            best = accuracy
            torch.save(model.state_dict(), io.BytesIO())


if __name__ == "__main__":
    main()
