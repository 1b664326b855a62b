"""Convolutions of fixed sizes with ``torch.backends.cudnn.benchmark`` off."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.model import Diagnosis, Severity
from tests.core.diagnosis.kernel_stories import BF16, H100
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import diagnosed, found, reasons
from tests.traces.builder import TraceBuilder, ms, us

CONVOLUTION = "sm90_xmma_fprop_implicit_gemm_f32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32"
OTHER = CONVOLUTION.replace("128x128", "64x64")


def judged(
    share: float = 0.3,
    names: tuple[str, ...] = (CONVOLUTION,),
    sizes: tuple[int, ...] = (),
    steps: int = 4,
    **cudnn: Any,
) -> Diagnosis:
    """Busy steps with such a share of convolutions, whose names and input sizes take turns."""
    story = TraceBuilder(fields={"deviceProperties": [H100]})
    for step in range(steps):
        begin = story.now
        known = {"Input Dims": [[8, 3, sizes[step % len(sizes)]]]} if sizes else {}
        story.step().forward().op("aten::cudnn_convolution", **known)
        name = names[step % len(names)]
        story.launch(name, us(1000 * share), call=20, starts=story.now + 20).close()
        story.op("aten::mm")
        story.launch(BF16, us(1000 - 1000 * share - 1), call=20).close()
        story.at(begin + ms(1)).end()
    note = {"cudnn": {"enabled": True, "benchmark": False, **cudnn}}
    return diagnosed(story, make_run(40, {"forward": 1}, events=(("settings", note),)))


def test_it_is_a_hint_where_sizes_are_fixed() -> None:
    finding = found(judged(0.4), "cudnn-benchmark-off")
    assert finding is not None
    assert finding.sentence == (
        "Convolutions take 40 % of the GPU's time with the same kernels in each step, and "
        "torch.backends.cudnn.benchmark is off."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)


@pytest.mark.parametrize(
    ("story", "has_finding"),
    [
        ({"share": 0.31}, True),
        ({"share": 0.29}, False),
        ({"names": (CONVOLUTION, OTHER), "share": 0.4}, False),
        ({"sizes": (224,), "share": 0.4}, True),
        ({"sizes": (224, 196), "share": 0.4}, False),
        ({"benchmark": True, "share": 0.4}, False),
        ({"benchmark": None, "share": 0.4}, False),
        ({"deterministic": True, "share": 0.4}, False),
    ],
)
def test_only_where_it_could_help(story: dict[str, Any], has_finding: bool) -> None:
    assert (found(judged(**story), "cudnn-benchmark-off") is not None) is has_finding


def test_a_single_step_does_not_tell() -> None:
    one = judged(0.4, steps=1)
    assert found(one, "cudnn-benchmark-off") is None
    why = "a single step does not show whether sizes stay the same"
    assert reasons(one)["cudnn-benchmark-off"] == why
    assert "cudnn-benchmark-off" not in reasons(judged(0.2, steps=1))
