"""How near kernels come to what the card can do."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftui.analysis.open_trace import open_trace
from perftui.diagnosis.model import Severity
from perftui.facts.fact import UnknownError
from perftui.facts.kernel.roofline import longest_call, roofline
from perftui.probe.model import Ceiling, Ceilings, rate_of
from perftui.probe.store import keep
from tests.core.diagnosis.kernel_stories import ADD, BF16, H100, K, busy_with
from tests.core.diagnosis.stories import busy, diagnosed, finding_of
from tests.traces.builder import us

PRODUCT = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
SUM = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
SHAPED = (
    K(BF16, 200, ("aten::mm",), args=PRODUCT),
    K(BF16, 200, ("aten::mm",), args=PRODUCT),
    K(ADD, 100, ("aten::add",), args=SUM),
)
FLOPS = 2 * 4096**3


def test_calls_of_one_step_with_their_roofs(tmp_path: Path) -> None:
    analysis = open_trace(busy_with(*SHAPED).write(tmp_path / "trace.json"))
    found = roofline(analysis)
    product, addition = found.calls
    assert (product.operator, product.sizes) == ("aten::mm", "4096x4096 4096x4096")
    assert (product.calls, product.time, product.flops) == (2, us(400), 2 * FLOPS)
    # 137 GFLOP at 989 TFLOP/s; 100 MB at 3350 GB/s.
    assert product.reached == pytest.approx(2 * FLOPS / 989.4e12 / 400e-6, rel=0.01)
    assert not product.is_memory_bound
    assert addition.is_memory_bound
    assert addition.reached == pytest.approx(3 * 2 * 4096**2 / 3350e9 / 100e-6, rel=0.01)
    assert found.flops_use(us(1000)) == pytest.approx(2 * FLOPS / 989.4e12 / 1e-3, rel=0.01)
    assert longest_call(analysis).sizes == product.sizes


def test_without_sizes_or_a_known_card_it_says_so(tmp_path: Path) -> None:
    plain = busy_with(K(BF16, 900, ("aten::mm",)))
    with pytest.raises(UnknownError, match="sizes of tensors were not recorded"):
        roofline(open_trace(plain.write(tmp_path / "plain.json")))
    unknown = busy_with(*SHAPED, card={**H100, "name": "Some card"})
    with pytest.raises(UnknownError, match="the peak rates of Some card are not known"):
        roofline(open_trace(unknown.write(tmp_path / "unknown.json")))


def test_a_busy_gpu_is_said_to_compute_what_it_computes() -> None:
    chain = [K(ADD, 50, ("aten::add",)) for _ in range(12)]
    finding = finding_of(busy_with(*chain, K(BF16, 390)), "compute-bound")
    assert finding.sentence == (
        "The GPU computes 990 µs of each 1.0 ms step (99 %): only computing less, or faster, "
        "helps. Of its kernels' time: elementwise 61 %, matrix products 39 %."
    )
    assert diagnosed(busy_with(K(BF16, 990))).findings[0].rule == "healthy"


@pytest.mark.parametrize(("share", "has_finding"), [(0.79, False), (0.8, True)])
def test_a_gpu_computes_most_of_the_time_from_four_fifths_on(
    share: float, has_finding: bool
) -> None:
    found = {finding.rule: finding for finding in diagnosed(busy(share)).findings}
    assert ("compute-bound" in found) is has_finding
    assert found["largest-part"].severity is Severity.WARNING
    if has_finding:
        assert (found["compute-bound"].severity, found["compute-bound"].cost_ns) == (
            Severity.INFO,
            0,
        )


def measured(gpu: str, *, tera: float) -> None:
    """Keep what ``perftui probe`` might measure on a card of that name."""
    rates = ((Ceiling.FLOAT32, 50e12), (Ceiling.MEMORY, 3e12), (Ceiling.BFLOAT16, tera * 1e12))
    found = tuple(rate_of(name, "FLOP/s", [[value]], "") for name, value in rates)
    assert keep(Ceilings("a host", 1, found, gpu, "580.1"))


SAID = "aten::mm of 4096x4096 4096x4096 reaches "


def said_of(card: dict[str, object]) -> str:
    additions = [K(ADD, 50, ("aten::add",))] * 9
    story = busy_with(*SHAPED, *additions, card=card)
    return finding_of(story, "compute-bound").sentence


def test_measured_rates_stand_beside_those_of_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    # 2 * 4096^3 in 200 us are 687 TFLOP/s.
    assert f"{SAID}69 % of the card's arithmetic rate." in said_of(H100)
    measured(str(H100["name"]), tera=800)
    assert f"{SAID}69 % of the card's arithmetic rate, 86 % of the measured one." in said_of(H100)


def test_a_card_that_is_not_listed_is_held_against_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    unlisted = {**H100, "name": "Some card"}
    assert SAID not in said_of(unlisted)
    measured("Some card", tera=1000)
    assert f"{SAID}69 % of the arithmetic rate that perftui probe measured." in said_of(unlisted)
    analysis = open_trace(busy_with(*SHAPED, card=unlisted).write(tmp_path / "trace.json"))
    found = roofline(analysis)
    assert found.is_measured
    assert found.peak == 1000
