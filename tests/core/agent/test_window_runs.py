"""Windows in trainings that really run."""

from __future__ import annotations

from typing import Any

PLAIN = """
import sys, torch
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
"""


def test_a_window_has_the_steps_that_were_asked_for_however_short_they_are(train: Any) -> None:
    run = train(PLAIN + "train(80)", options={"window_steps": 3})

    assert [window["steps"] for window in run.notes("window")] == [3]
