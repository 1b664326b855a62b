"""What the fixes for GPUs write runs where the CPU plays CUDA, is in force, and trains alike."""

from collections.abc import Callable, Sequence

import pytest

from perftui.fixes.compilation import channels_last, compile_fix
from perftui.fixes.source.edits import Edit
from perftui.fixes.source.patching import apply_edits
from perftui.fixes.switches import autocast_bf16, cudnn_benchmark, tf32
from perftui.script.program import Program, parse_program
from tests.core.agent.conftest import Train

pytestmark = pytest.mark.subprocess

PLAYED = """
import torch

class Played(torch.nn.Module):
    '''Lets the CPU stand in for the GPU.'''
    def cuda(self):
        return self
    def compile(self):
        print("compiled")

torch.cuda.is_available = lambda: True
torch.cuda.is_bf16_supported = lambda **_: True
torch.Tensor.cuda = lambda tensor, **_: tensor
"""

SCRIPT = """
from torch import nn

class Net(Played):
    def __init__(self):
        super().__init__()
        self.convolve = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 1)
    def forward(self, images):
        print("autocast", torch.is_autocast_enabled("cuda"))
        return self.head(self.convolve(images).relu().mean((2, 3)))

torch.manual_seed(0)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(3):
    images = torch.randn(2, 3, 8, 8).cuda(non_blocking=True)
    out = net(images)
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}")
"""

REPORT = """
print(torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark)
print(net.convolve.weight.is_contiguous(memory_format=torch.channels_last))
"""

Plan = Callable[[Program, int], Sequence[Edit]]

PLAIN = ("autocast False", "highest False", "False")
WRITTEN: dict[str, tuple[Plan, tuple[str, ...]]] = {
    "tf32": (tf32.plan, ("autocast False", "high False", "False")),
    "cudnn.benchmark": (cudnn_benchmark.plan, ("autocast False", "highest True", "False")),
    "channels last": (channels_last.plan, ("autocast False", "highest False", "True")),
    "autocast": (autocast_bf16.plan, ("autocast True", "highest False", "False")),
    "compile": (compile_fix.plan, ("compiled", *PLAIN)),
}


def said(out: str) -> tuple[list[str], tuple[str, ...]]:
    """The losses, and what else was printed, each line once."""
    lines = out.splitlines()
    losses = [line for line in lines if line.replace(".", "").isdigit()]
    return losses, tuple(dict.fromkeys(line for line in lines if line not in losses))


@pytest.mark.parametrize("name", WRITTEN)
def test_the_text_runs_and_is_in_force(train: Train, name: str) -> None:
    plan, in_force = WRITTEN[name]
    plain = train(PLAYED + SCRIPT + REPORT, agent=False)
    losses, before = said(plain.out)
    assert (plain.code, len(losses), before) == (0, 3, PLAIN)
    source = (PLAYED + SCRIPT).encode()
    text, _ = apply_edits(source, list(plan(parse_program(source), 1)))
    fixed = train(text.decode() + REPORT, agent=False)
    assert (fixed.code, fixed.err) == (0, "")
    assert said(fixed.out) == (losses, in_force)
