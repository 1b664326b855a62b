"""How near kernels come to what the card can do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.open_trace import open_trace
from perftui.diagnosis.model import Severity
from perftui.facts.fact import UnknownError
from perftui.facts.gpu.roofline import longest_call, roofline
from perftui.probe.ceilings import Ceiling, Ceilings, keep, rate_of
from tests.core.diagnosis.kernel_stories import ADD, BF16, H100, K, busy_with
from tests.core.diagnosis.stories import busy, diagnosed, finding_of
from tests.traces.builder import TraceBuilder, us

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


def test_rates_intensity_and_what_the_roof_would_save(tmp_path: Path) -> None:
    analysis = open_trace(busy_with(*SHAPED).write(tmp_path / "trace.json"))
    product, addition = roofline(analysis).calls
    moved = 2 * 3 * 2 * 4096**2
    assert product.intensity == pytest.approx(2 * FLOPS / moved)
    assert product.flop_rate == pytest.approx(2 * FLOPS / 400e-6)
    assert product.byte_rate == pytest.approx(moved / 400e-6)
    assert product.saved == us(400) - 2 * round(FLOPS / 989.4e12 * 1e9)
    assert (addition.intensity, addition.flop_rate) == (None, None)
    assert addition.byte_rate == pytest.approx(moved / 2 / 100e-6)
    assert addition.saved == us(100) - round(moved / 2 / 3350)
    assert analysis.trace.name_of(product.row) == "aten::mm"
    assert product.longest == us(200)


def test_what_stays_in_caches_saves_nothing(tmp_path: Path) -> None:
    fast = busy_with(K(ADD, 10, ("aten::add",), args=SUM))
    (found,) = roofline(open_trace(fast.write(tmp_path / "trace.json"))).calls
    assert found.reached > 1
    assert found.saved == 0


def test_kernels_with_8_bits_have_no_roof_here(tmp_path: Path) -> None:
    story = busy_with(K("sm90_xmma_gemm_e4m3bf16", 200, ("aten::mm",), args=PRODUCT))
    (found,) = roofline(open_trace(story.write(tmp_path / "trace.json"))).calls
    assert (found.roof, found.saved) == (0, None)


KERNELS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 200), st.integers(0, 90), st.integers(0, 1)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(KERNELS)
def test_kernels_of_a_call_that_run_at_once_are_united(
    kernels: list[tuple[int, int, int, int]],
) -> None:
    """Against a set of the nanoseconds in which a kernel of the call runs."""
    story = TraceBuilder(fields={"deviceProperties": [H100]})
    for call in range(4):
        story.at(us(100 * call)).op("aten::add", us(90), **SUM)
        for number, (of, start, lasting, stream) in enumerate(kernels):
            if of == call:
                story.at(us(100 * call + 1 + number))
                story.launch(ADD, lasting, starts=us(500) + start, stream=7 + stream)
    calls: dict[int, set[int]] = {}
    for of, start, lasting, _ in kernels:
        calls.setdefault(of, set()).update(range(start, start + lasting))
    expected = [len(one) for one in calls.values()]
    if not sum(expected):
        return
    found = roofline(story.analysis())
    assert sum(one.time for one in found.calls) == sum(expected)
    assert max(one.longest for one in found.calls) == max(expected)
    assert found.covered == found.whole == len(set().union(*calls.values()))


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
