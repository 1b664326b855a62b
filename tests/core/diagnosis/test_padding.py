"""``padding-waste``: batches of token ids that are mostly padding."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Confidence, Finding, Severity
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import MS, event_table, make_run
from tests.core.diagnosis.stories import found, reasons
from tests.traces.builder import TraceBuilder, ms

LOADER = {"id": 1, "file": "/p/train.py", "line": 7, "role": "train", "num_workers": 0}


def look(padded: int, spare: int = 0, tokens: int = 1000) -> dict[str, Any]:
    return {"key": "input_ids", "length": 100, "rows": tokens // 100, "tokens": tokens} | {
        "padded": padded,
        "spare": spare,
    }


def facts(
    *looks: dict[str, Any],
    operator: str = "aten::mm",
    loader: bool = True,
    computing: float = 8,
    script: Path | None = None,
) -> Facts:
    """A run of steps of 10 ms, so many of them computing."""
    run = make_run(phases={"forward": computing, "other": 10 - computing})
    notes = [("padding", one) for one in looks]
    if loader:
        notes.append(("loader", LOADER))
    if script is not None:
        notes.append(("process", {"argv0": str(script)}))
    story = TraceBuilder().repeat(
        4,
        lambda t: (
            t.step().forward().op(operator, ms(computing)).close().pause(ms(10 - computing)).end()
        ),
    )
    rank = replace(run.ranks[0], events=event_table(events=tuple(notes)))
    return Facts(replace(run, ranks=(rank,)), story.analysis())


def said(facts: Facts) -> Finding | None:
    return found(diagnosis(facts), "padding-waste")


def told(facts: Facts) -> Finding:
    one = said(facts)
    assert one is not None
    return one


def test_the_share_of_padding_is_that_of_the_computing() -> None:
    one = told(facts(look(900, 700), look(1800, 1000, tokens=2000)))
    assert one.sentence == (
        "90 % of the tokens in a batch are padding: about 7.2 ms of each 10 ms step is spent on it."
    )
    assert (one.cost_ns, one.severity, one.confidence) == (
        7.2 * MS,
        Severity.CRITICAL,
        Confidence.MEDIUM,
    )
    assert one.would_raise_confidence == "whether the model computes padding"
    assert one.place is not None
    assert one.place.source == "/p/train.py:7"
    assert one.parts == ("forward",)
    figures = {figure.label: figure.value for figure in one.facts}
    assert figures["beyond the longest row of each batch"] == 56.7
    assert (figures["tokens in a row"], figures["of them not padding"]) == (100, 10)


@pytest.mark.parametrize(
    ("padded", "computing", "severity"),
    [
        (249, 8, None),
        (250, 8, Severity.WARNING),
        (250, 7, Severity.INFO),
        (250, 3, None),
        (640, 8, Severity.CRITICAL),
    ],
)
def test_it_is_told_by_the_share_of_padding_and_of_the_step(
    padded: int, computing: float, severity: Severity | None
) -> None:
    one = said(facts(look(padded), look(padded), computing=computing))
    assert (one.severity if one else None) is severity


def test_without_token_ids_nothing_is_said_and_of_one_batch_it_is_not_judged() -> None:
    judged = diagnosis(facts())
    assert found(judged, "padding-waste") is None
    assert "padding-waste" not in reasons(judged)
    judged = diagnosis(facts({"rows": "many"}, look(0, tokens=0)))
    assert "padding-waste" not in reasons(judged)
    judged = diagnosis(facts(look(900)))
    assert reasons(judged)["padding-waste"] == "only a single batch was checked for padding"


@pytest.mark.parametrize(
    "operator",
    [
        "aten::_pack_padded_sequence",
        "aten::_nested_tensor_from_tensor_list",
        "flash_attn::_flash_attn_varlen_forward",
    ],
)
def test_operators_that_skip_padding_make_it_unjudged(operator: str) -> None:
    judged = diagnosis(facts(look(900), look(900), operator=operator))
    assert found(judged, "padding-waste") is None
    assert reasons(judged)["padding-waste"].startswith("packed or nested sequences")


def script_of(folder: Path, text: str) -> Path:
    script = folder / "train.py"
    script.write_text(text)
    os.utime(script, ns=(0, 0))
    return script


def test_a_script_that_packs_makes_it_unjudged(tmp_path: Path) -> None:
    packing = "x = 1\nx = nn.utils.rnn.pack_padded_sequence(x, lengths)\n"
    judged = diagnosis(facts(look(900), look(900), script=script_of(tmp_path, packing)))
    assert "padding-waste" in reasons(judged)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import torch\nids = pad_sequence(texts)\n", 2),
        ("conv = nn.Conv1d(8, 8, 3, padding=1)\nids = tokenizer(texts, padding='max_length')\n", 2),
        ("ids = F.pad(texts, 3)\nids = F.pad(texts, 4)\n", None),
    ],
)
def test_without_a_loader_the_only_line_that_pads_is_named(
    tmp_path: Path, text: str, line: int | None
) -> None:
    one = told(facts(look(900), look(900), loader=False, script=script_of(tmp_path, text)))
    assert (one.place.line if one.place else None) == line
