"""Memory by category of a training that PyTorch's profiler recorded, against what it must be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perftui.analysis.memory import Category
from perftui.analysis.memory_categories import memory_of_trace
from perftui.trace.formats import load_trace
from perftui.trace.model import NONE

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]

TRAINING = """
import sys
import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
optimizer = torch.optim.Adam(model.parameters())
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
) as profiler:
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.arange(32) % 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
profiler.export_chrome_trace(sys.argv[1])
print(sum(each.numel() * each.element_size() for each in model.parameters()))
print(sum(state.numel() * state.element_size() for each in optimizer.state.values()
          for state in each.values()))
"""


def test_gradients_and_state_are_as_large_as_torch_says(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    made = subprocess.run(
        [sys.executable, "-c", TRAINING, str(path)], check=True, capture_output=True, text=True
    )
    parameters, state = map(int, made.stdout.split())
    (memory,) = memory_of_trace(load_trace(path))
    assert memory.device == NONE
    most = {category: int(memory.parts[category].max()) for category in Category}
    assert most[Category.GRADIENTS] == parameters
    assert most[Category.OPTIMIZER] == state
    # What relu and the last layer keep for the backward pass: 32 rows of 256 floats.
    assert 32 * 256 * 4 <= most[Category.ACTIVATIONS] <= 2 * 32 * 256 * 4
    assert int(memory.parts[Category.GRADIENTS, -1]) == parameters
    assert int(memory.parts[Category.OPTIMIZER, -1]) == state
