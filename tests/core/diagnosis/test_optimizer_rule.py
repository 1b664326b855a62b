"""``optimizer-single-tensor``, and the fix that answers it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from perftui.fixes.fix import option
from perftui.fixes.model import FixOption
from perftui.fixes.optimizer import FOREACH, FUSED
from tests.core.diagnosis.runs import MS, event_table, make_run
from tests.core.diagnosis.stories import found

ADAMW = {"name": "torch.optim.adamw.AdamW", "file": "/p/train.py", "line": 5, "parameters": 120}


def facts_of(optimizer: float = 30, device: str = "cpu", **made: Any) -> Facts:
    """Steps of 100 ms, so many of them in the optimizer."""
    run = make_run(phases={"forward": 100 - optimizer, "optimizer": optimizer})
    parameters = [{"dtype": "float32", "device": device, "trained": 120}]
    note = {"optimizers": [{**ADAMW, **made}], "parameters": parameters}
    rank = replace(run.ranks[0], events=event_table(events=(("settings", note),)))
    return Facts(replace(run, ranks=(rank,)))


def judged(facts: Facts) -> Finding | None:
    return found(diagnosis(facts), "optimizer-single-tensor")


def offered(facts: Facts) -> FixOption | None:
    return option(FUSED, facts)


def test_the_optimizer_is_named_with_its_line_and_half_its_time_is_lost() -> None:
    finding = judged(facts_of(optimizer=30))
    assert finding is not None
    assert finding.sentence == (
        "The optimizer takes 30 ms of each 100 ms step (30 %): AdamW at train.py:5 updates "
        "120 tensors one at a time."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, 15 * MS)
    assert finding.fixes == ("optimizer-fused", "optimizer-foreach")


def test_a_small_part_of_the_step_is_left_alone() -> None:
    assert judged(facts_of(optimizer=9.9)) is None
    small = judged(facts_of(optimizer=10.1))
    assert small is not None
    assert small.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("device", "made", "is_found"),
    [
        ("cpu", {"fused": True}, False),
        ("cpu", {"foreach": True}, False),
        ("cpu", {"foreach": False}, True),
        # torch takes foreach by itself there.
        ("cuda:0", {}, False),
        ("cuda:0", {"foreach": False}, True),
        ("cpu", {"differentiable": True}, False),
        ("cpu", {"name": "mine.Lion"}, False),
        ("cpu", {"parameters": 49}, False),
    ],
)
def test_only_optimizers_of_torch_that_go_tensor_by_tensor(
    device: str, made: dict[str, Any], is_found: bool
) -> None:
    assert (judged(facts_of(device=device, **made)) is not None) is is_found


def test_a_run_that_does_not_say_how_it_is_set_up_is_not_judged() -> None:
    judgement = diagnosis(Facts(make_run(phases={"forward": 60, "optimizer": 40})))
    assert found(judgement, "optimizer-single-tensor") is None
    why = {one.rule: one.reason for one in judgement.abstentions}
    assert why["optimizer-single-tensor"] == "how the optimizer was created was not recorded"


def test_the_fix_makes_it_fused_at_the_line_that_makes_it() -> None:
    found = offered(facts_of())
    assert found is not None
    assert found.override is not None
    assert (found.override.target, found.override.arguments) == ("optimizer", {"fused": True})
    assert (found.override.file, found.override.line) == ("/p/train.py", 5)
    assert found.advice == "At train.py:5: AdamW(..., fused=True)"


def test_an_optimizer_without_fused_kernels_is_not_offered_them() -> None:
    found = offered(facts_of(name="torch.optim.rmsprop.RMSprop"))
    assert found is not None
    assert (found.override, found.why_not) == (None, "torch has no fused RMSprop")


def test_without_such_an_optimizer_there_is_nothing_to_offer() -> None:
    assert offered(facts_of(fused=True)) is None


def test_lists_are_offered_where_torch_has_no_fused_form(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\no = torch.optim.RMSprop(p, lr=1e-3)\n")
    made = {"name": "torch.optim.rmsprop.RMSprop", "file": str(script), "line": 2}
    listed = option(FOREACH, facts_of(**made))
    assert listed is not None
    assert listed.override is not None
    assert (listed.title, listed.override.arguments) == ("RMSprop foreach=True", {"foreach": True})
    assert listed.patch is None or b"lr=1e-3, foreach=True)" in listed.patch.after
    assert option(FOREACH, facts_of()) is None
