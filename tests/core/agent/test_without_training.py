"""Scripts that train nothing: their steps, their phases and their windows."""

from __future__ import annotations

import json
from typing import Any

import pytest

SCRIPT = """
import sys
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
STEPS = 80


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)

    def forward(self, x):
        return self.layer(x)

    @torch.no_grad()
    def generate(self, x, length):
        total = x
        for _ in range(length):
            x = self(x).softmax(-1)
            total = total + x
        return total


model = Model().eval()
data = TensorDataset(torch.randn(4 * STEPS, 16))


def loader():
    with torch.no_grad():
        return sum(float(model(x).sum()) for (x,) in DataLoader(data, batch_size=4))


def workers():
    with torch.inference_mode():
        return sum(float(model(x).sum()) for (x,) in DataLoader(data, 4, num_workers=1))


def calls():
    with torch.no_grad():
        return sum(float(model(torch.randn(4, 16)).sum()) for _ in range(STEPS))


def decoding():
    return sum(float(model.generate(torch.randn(1, 16), 8).sum()) for _ in range(STEPS // 8))


def restored():
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.load_state_dict(optimizer.state_dict())
    return loader()


print(globals()[sys.argv[1]]())
"""


@pytest.mark.parametrize(
    ("loop", "kind", "phases"),
    [
        ("loader", "infer", {"forward", "input_wait"}),
        ("workers", "infer", {"forward", "input_wait"}),
        ("calls", "infer", {"forward"}),
        ("decoding", "infer", {"forward"}),
    ],
)
def test_it_gets_steps_and_a_window(train: Any, loop: str, kind: str, phases: set[str]) -> None:
    watched = train(SCRIPT, loop)

    assert (watched.code, watched.err) == (0, "")
    assert watched.step_kinds == [kind] * 80
    assert phases <= {record.kind for record in watched.records()}
    # Warm after 50 steps at the latest.
    window, *_ = watched.notes("window")
    assert window["reason"] == "warm"
    trace = json.loads((watched.spool.root / window["file"]).read_text())
    names = {event.get("name", "") for event in trace["traceEvents"]}
    assert {"perftui::forward", "aten::linear"} <= names
    assert any(name.startswith("ProfilerStep#") for name in names)


@pytest.mark.slow
def test_with_an_optimizer_it_might_train_yet(train: Any) -> None:
    watched = train(SCRIPT, "restored")

    assert (watched.code, watched.err) == (0, "")
    assert watched.step_kinds == ["eval"] * 80
    assert {"forward", "input_wait"} <= {record.kind for record in watched.records()}
    assert watched.notes("window") == []
