"""Which share of the positions a loss leaves out, by the mask that the file draws."""

import pytest

from perftui.script.ignored import ignored_by_loss
from perftui.script.program import parse_program

TEXT = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
SHARE = 0.15
class Head(nn.Module):
    def forward(self, h):
        return self.out(self.norm(h))
class Net(nn.Module):
    def __init__(self, part=0.2):
        self.body, self.head = nn.Linear(9, 9), Head()
        self.part = part
    def encode(self, x):
        return self.body(x)
    def forward(self, x):
        {lines}
net = Net()
"""
BY = "mask = torch.rand(x.shape) < SHARE\n"
CE = "\nreturn F.cross_entropy(logits.view(-1, 9), y.view(-1))"
HEAD = "h = self.body(x)\nlogits = self.head(h)\n"
CHOSEN = "self.head(h[mask])"
IGNORED = [
    (f"{BY}{HEAD}y = x.masked_fill(~mask, -100){CE}", 85, CHOSEN),
    (f"{BY}{HEAD}y = torch.where(mask, x, -100){CE}", 85, CHOSEN),
    (
        f"{BY}h = self.encode(x)\nlogits = self.head(h)\n"
        f"y = torch.where(mask, x, torch.full_like(x, -100)){CE}",
        85,
        CHOSEN,
    ),
    (f"{BY}{HEAD}y = x.clone()\ny[~mask] = -100{CE}", 85, CHOSEN),
    (f"{BY}{HEAD}return F.cross_entropy(logits[mask], x[mask])", 85, CHOSEN),
    (
        f"mask = (torch.rand(9) < self.part) & (x > 0)\n{HEAD}y = torch.where(mask, x, 0)\n"
        "return F.cross_entropy(logits, y, ignore_index=0)",
        80,
        CHOSEN,
    ),
    (
        f"mask = torch.bernoulli(torch.full(x.shape, 0.3)).bool()\nh = self.body(x)\n"
        f"logits = h @ self.tied.t() + self.bias\ny = x.masked_fill(~mask, -100){CE}",
        70,
        "h[mask] @ self.tied.t() + self.bias",
    ),
]
KEPT = [
    f"{BY}{HEAD}y = x.masked_fill(mask, -100)\nlogits, y = logits * 1, y * 1{CE}",
    f"mask = x > 0\n{HEAD}y = x.masked_fill(~mask, -100){CE}",
    f"{BY}{HEAD}y = x.masked_fill(~mask, 0){CE}",
    f"{BY}h = self.body(x)\nlogits = self.conv(h, edges)\nreturn F.cross_entropy(logits[mask], x)",
    f"{BY}h = self.body(x)\nlogits = self.head(h[mask])\nreturn F.cross_entropy(logits, x[mask])",
    f"{BY}{HEAD}with torch.no_grad():\n return F.cross_entropy(logits[mask], x[mask])",
]


@pytest.mark.parametrize(
    ("lines", "share", "chosen"), [*IGNORED, *((lines, 0, "") for lines in KEPT)]
)
def test_the_share_is_that_of_the_mask(lines: str, share: int, chosen: str) -> None:
    text = TEXT.format(lines=lines.replace("\n", "\n        "))
    found = ignored_by_loss(parse_program(text.encode()))
    assert [round(100 * shown.share) for shown in found] == ([share] if share else [])
    assert all(f", {chosen}, and" in shown.instead for shown in found)
