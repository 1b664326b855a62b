"""What is said of traces whose bottleneck is known from how they were recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.analysis.analyse import analyse
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.trace.load import load_trace
from tests.corpus.collection import ROOT

pytestmark = pytest.mark.corpus

SAMPLES = "kineto/tb_plugin/samples"
KNOWN = {
    f"{SAMPLES}/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz": (
        "input-in-main-thread"
    ),
    f"{SAMPLES}/resnet50_num_workers_0/worker0.1623143566756.pt.trace.json.gz": (
        "input-in-main-thread"
    ),
    f"{SAMPLES}/resnet50_num_workers_4/worker0.pt.trace.json.gz": None,
    "tracelens/traces/h100/Falconsai_nsfw_image_detection__1016002.json.gz": "launch-bound",
    # Its device is busy 95 % of the time, mostly with communication that nothing hides.
    "tracelens/traces/mi300/resnet_act_checkpoint.json.gz": None,
    "tracelens/traces/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": "healthy",
}


@pytest.mark.parametrize(("name", "rule"), KNOWN.items(), ids=[Path(name).name for name in KNOWN])
def test_the_bottleneck_of_a_real_trace_is_named(name: str, rule: str | None) -> None:
    path = ROOT / name
    if not path.is_file():
        pytest.skip(f"{name} is not in the collection")
    top = diagnosis(Facts(None, analyse(load_trace(path)))).top
    assert (top.rule if top else None) == rule
