"""Activation checkpointing, and the memory that is free for doing without it."""

from __future__ import annotations

import pytest

from tests.core.diagnosis.kernel_stories import BF16, K, busy_with
from tests.core.diagnosis.runs import make_run, telemetry_table
from tests.core.diagnosis.stories import finding_of

LINEAR = ("aten::linear", "aten::addmm")


@pytest.mark.parametrize(("used", "is_free"), [(49, True), (50, False)])
def test_it_is_reported_with_the_memory_that_is_free(used: float, is_free: bool) -> None:
    story = busy_with(
        K(BF16, 300, LINEAR), K(BF16, 200, LINEAR, "backward"), K(BF16, 490, (), "backward")
    )
    memory = {"gpu0.memory_used": used, "gpu0.memory_total": 100.0, "gpu0.process_memory": used}
    run = make_run(40, {"forward": 1}, telemetry=telemetry_table(**memory))
    sentence = finding_of(story, "backward-recompute", run).sentence
    assert sentence.endswith("is on, though 51 % of the GPU's memory is free.") is is_free
