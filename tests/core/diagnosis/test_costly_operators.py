"""Operators that take much of the step: sorting, dropped results, and their roof."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.kernels.category import Category
from perftui.analysis.open_trace import open_trace
from perftui.diagnosis.model import Severity
from perftui.diagnosis.rules import answer_to
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.gpu.roofline import roofline
from perftui.probe.ceilings import Ceiling, Ceilings, keep, rate_of
from tests.core.diagnosis.runs import NODE, call, ops, script_run, trained
from tests.core.diagnosis.stories import (
    ADD,
    BF16,
    CALL,
    H100,
    SGEMM,
    K,
    busy_with,
    diagnosed,
    finding_of,
    found,
    product,
    reasons,
    training,
)
from tests.traces.builder import TraceBuilder, ms, us

RADIX = (
    "void at_cuda_detail::cub::DeviceRadixSortOnesweepKernel<at_cuda_detail::cub::"
    "DeviceRadixSortPolicy<{0}, long, int>::Policy900, false, {0}, long, int, int, int>(int*)"
)
SORT = RADIX.format("float")
TOPK = "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(float const*)"
FILL = "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda>"
MULTIPLY_64 = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<double, double, "
    "double, Mul<double> >, std::array<char*, 3ul> >(int)"
)


def sorting(lasting: float, *ops: str, name: str = SORT) -> TraceBuilder:
    """Steps of 1 ms, so many us of them in a kernel that sorts, launched by those operators."""
    return busy_with(K(SGEMM, 1000 - lasting, ("aten::mm",)), K(name, lasting, ops), steps=20)


def test_the_time_is_reported_with_the_line() -> None:
    def step(t: TraceBuilder) -> None:
        t.step().op("aten::mm").launch("ampere_sgemm", us(700), call=CALL, starts=t.now).close()
        starts = t.now - CALL + us(700)
        t.frame("metrics.py(7): ranking").op("aten::sort")
        t.launch(SORT, us(300), call=CALL, starts=starts).close().close()
        t.pause(ms(1) - 2 * CALL).end()

    finding = finding_of(training().repeat(20, step), "sorting")
    assert finding.sentence == (
        "The GPU sorts for 300 µs of each 1.0 ms step (30 %) at metrics.py:7."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, us(300))
    assert not finding.is_least
    assert (finding.place.operator, finding.place.source) == ("aten::sort", "metrics.py:7")


@pytest.mark.parametrize(
    ("ops", "name", "operator"),
    [
        (("aten::argsort", "aten::sort"), SORT, "aten::argsort"),
        (("aten::msort", "aten::sort"), SORT, "aten::msort"),
        (("aten::topk",), TOPK, "aten::topk"),
        (("aten::_unique2",), RADIX.format("long"), "aten::_unique2"),
        (("aten::unique_dim",), "void thrust::cuda_cub::core::_kernel_agent<int>", None),
        # What sorts inside another operator.
        (("torchvision::nms", "aten::sort"), SORT, "aten::sort"),
        (("aten::quantile", "aten::sort"), SORT, "aten::sort"),
    ],
)
def test_all_operators_that_sort_count(ops: tuple[str, ...], name: str, operator: str) -> None:
    finding = finding_of(sorting(200, *ops, name=name), "sorting")
    assert finding.cost_ns == us(200)
    assert finding.place.operator == (operator or ops[0])


def test_what_they_call_counts_as_well() -> None:
    story = busy_with(
        K(SGEMM, 800, ("aten::mm",)),
        K(FILL, 50, ("aten::sort", "aten::arange", "aten::arange")),
        K(SORT, 150, ("aten::sort",)),
        steps=20,
    )
    assert finding_of(story, "sorting").cost_ns == us(200)


def test_sorting_numbers_of_float64_is_one_finding() -> None:
    judged = diagnosed(sorting(300, "aten::sort", name=RADIX.format("double")))
    finding = found(judged, "sorting")
    assert finding.cost_ns == us(300)
    assert found(judged, "float64") is None


def test_other_work_in_float64_stays_a_finding() -> None:
    story = busy_with(
        K(SGEMM, 400, ("aten::mm",)),
        K(SORT, 200, ("aten::sort",)),
        K(MULTIPLY_64, 400, ("aten::mul",)),
        steps=20,
    )
    assert finding_of(story, "sorting").cost_ns == us(200)
    assert finding_of(story, "float64").cost_ns == us(200)


SCRIPT = """
names.sort()
order = scores.argsort()
kinds = labels.unique()
"""


@pytest.mark.parametrize(
    ("ops", "line"),
    [
        (("aten::argsort", "aten::sort"), 3),
        (("aten::_unique2",), 4),
        # The script calls quantile, and the only ``sort`` in it is that of a list.
        (("aten::quantile", "aten::sort"), None),
    ],
)
def test_without_stacks_the_line_is_the_only_one_that_calls_the_operator(
    tmp_path: Path, ops: tuple[str, ...], line: int | None
) -> None:
    run = script_run(tmp_path, SCRIPT, phases={"forward": 1})
    assert finding_of(sorting(300, *ops), "sorting", run).place.line == line


def last_position(
    product: float = 10,
    *,
    views: int = 1,
    behind: tuple[str, ...] = ("aten::select",),
    node: str = "SelectBackward0",
) -> Facts:
    """A product of so many ms of 100 ms, views of it, and what takes its result, with a backward
    pass of twice that for the product and 2 ms for the piece."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::gru", lasting=88_000 - 3000 * product)
        call(t, "aten::linear", "aten::addmm", lasting=1000 * product)
        ops(t, *["aten::view"] * views, *behind, "aten::cross_entropy_loss")
        t.backward()
        call(t, f"{NODE}NllLossBackward0", lasting=10)
        call(t, f"{NODE}{node}", "aten::zeros", lasting=2000)
        call(t, f"{NODE}ViewBackward0", lasting=10)
        call(t, f"{NODE}AddmmBackward0", "aten::mm", lasting=2000 * product)
        call(t, f"{NODE}GruBackward0", lasting=10_000 - 50)
        t.close()

    phases = {"forward": 88 - 2 * product, "backward": 12 + 2 * product}
    return trained(step, phases, ("/p/train.py", 16, "forward"))


def masked(ignored: int, padded: int = 0, *, near: bool = True) -> Facts:
    """The logits of a product of 10 of 100 ms go into a loss of 10 ms, of whose 1,000 targets so
    many are ignored, with backward passes of 10 and 20 ms."""

    def step(t: TraceBuilder) -> None:
        call(t.forward(), "aten::gru", lasting=30_000)
        call(t, "aten::linear", "aten::addmm", lasting=10_000)
        ops(t, *["aten::gelu"] * (1 if near else 9))
        call(t, "aten::cross_entropy_loss", "aten::log_softmax", lasting=10_000)
        t.backward()
        call(t, f"{NODE}NllLossBackward0", lasting=10)
        call(t, f"{NODE}LogSoftmaxBackward0", lasting=10_000)
        call(t, f"{NODE}ViewBackward0", lasting=10)
        call(t, f"{NODE}AddmmBackward0", "aten::mm", lasting=20_000)
        call(t, f"{NODE}GruBackward0", lasting=19_900)
        t.close()

    look = {"tokens": 1000, "padded": padded, "targets": 1000, "ignored": ignored}
    phases, line = {"forward": 50, "backward": 50}, ("/p/train.py", 16, "forward")
    return trained(step, phases, line, more=(("padding", look),))


def test_what_serves_ignored_targets_is_their_share_of_head_and_loss() -> None:
    finding = finding_of(masked(900, padded=100), "ignored-targets")
    assert finding.sentence == (
        "The loss ignores 80 % of the targets, but the logits of all are computed at "
        "train.py:16: head and loss take 50 ms of each 100 ms step (50 %), backward pass included."
    )
    assert finding.cost_ns == pytest.approx(40_000_000, rel=0.01)


def test_a_gather_is_one_piece_whatever_comes_of_it() -> None:
    facts = last_position(views=0, behind=("aten::gather", "aten::slice"))
    assert found(facts, "dropped-results") is not None


PRODUCT = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
SUM = {"Input Dims": [[4096, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}
SHAPED = (
    K(BF16, 200, ("aten::mm",), args=PRODUCT),
    K(BF16, 200, ("aten::mm",), args=PRODUCT),
    K(ADD, 100, ("aten::add",), args=SUM),
)
FLOPS = 2 * 4096**3


def test_calls_of_one_step_with_their_rates_and_roofs(tmp_path: Path) -> None:
    analysis = open_trace(busy_with(*SHAPED).write(tmp_path / "trace.json"))
    multiplied, addition = roofline(analysis).calls
    assert (multiplied.operator, multiplied.sizes) == ("aten::mm", "4096x4096 4096x4096")
    assert (multiplied.calls, multiplied.time, multiplied.flops) == (2, us(400), 2 * FLOPS)
    # 137 GFLOP at 989 TFLOP/s; 100 MB at 3350 GB/s.
    assert multiplied.reached == pytest.approx(2 * FLOPS / 989.4e12 / 400e-6, rel=0.01)
    assert not multiplied.is_memory_bound
    assert addition.is_memory_bound
    assert addition.reached == pytest.approx(3 * 2 * 4096**2 / 3350e9 / 100e-6, rel=0.01)
    used = roofline(analysis)
    assert [kind.category for kind in used.kinds] == [Category.GEMM, Category.ELEMENTWISE]
    assert used.kinds[0].worst == multiplied
    needed = (2 * FLOPS / 989.4e12 + 3 * 2 * 4096**2 / 3350e9) / 500e-6
    assert (used.known, used.reached) == (1.0, pytest.approx(needed, rel=0.01))
    moved = 2 * 3 * 2 * 4096**2
    assert multiplied.intensity == pytest.approx(2 * FLOPS / moved)
    assert multiplied.flop_rate == pytest.approx(2 * FLOPS / 400e-6)
    assert multiplied.byte_rate == pytest.approx(moved / 400e-6)
    assert multiplied.saved == us(400) - 2 * round(FLOPS / 989.4e12 * 1e9)
    assert (addition.intensity, addition.flop_rate) == (None, None)
    assert addition.byte_rate == pytest.approx(moved / 2 / 100e-6)
    assert addition.saved == us(100) - round(moved / 2 / 3350)
    assert analysis.trace.name_of(multiplied.row) == "aten::mm"
    assert multiplied.longest == us(200)


def test_without_sizes_or_a_known_card_it_says_so(tmp_path: Path) -> None:
    plain = busy_with(K(BF16, 900, ("aten::mm",)))
    with pytest.raises(UnknownError, match="sizes of tensors were not recorded"):
        roofline(open_trace(plain.write(tmp_path / "plain.json")))
    unknown = busy_with(*SHAPED, card={**H100, "name": "Some card"})
    with pytest.raises(UnknownError, match="the peak rates of Some card are not known"):
        roofline(open_trace(unknown.write(tmp_path / "unknown.json")))


def test_what_stays_in_caches_saves_nothing_and_8_bits_have_no_roof_here(tmp_path: Path) -> None:
    fast = busy_with(K(ADD, 10, ("aten::add",), args=SUM))
    (found,) = roofline(open_trace(fast.write(tmp_path / "trace.json"))).calls
    assert found.reached > 1
    assert found.saved == 0
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
    for at in range(4):
        story.at(us(100 * at)).op("aten::add", us(90), **SUM)
        for number, (of, start, lasting, stream) in enumerate(kernels):
            if of == at:
                story.at(us(100 * at + 1 + number))
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


MM = ("aten::mm",)
FLASH = ("aten::_scaled_dot_product_flash_attention", "aten::_flash_attention_forward")


def attending(lasting: float, reached: float) -> K:
    """Attention of so many us at that share of an H100's rate."""
    heads = round(reached * lasting * 989.4e6 / (4 * 1024 * 1024 * 64))
    sizes = {"Input Dims": [[1, 1024, heads, 64]] * 3, "Input type": ["c10::BFloat16"] * 3}
    return K("flash_fwd_kernel", lasting, FLASH, args=sizes)


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        ((K(BF16, 990, MM, args=product(990, 0.5)),), ""),
        ((K(BF16, 990, MM, args=product(990, 0.49)),), "reach 49 % of the card's rates"),
        ((K(BF16, 990, MM),), "sizes of tensors were not recorded"),
        ((K(BF16, 980, MM, args=product(735, 0.9)), K(ADD, 10)), ""),
        ((K(BF16, 743, MM, args=product(743, 0.9)), K(BF16, 247)), ""),
        ((K(BF16, 740, MM, args=product(740, 0.9)), K(BF16, 250)), "is known for 75 % of the"),
        ((K(BF16, 790, MM, args=product(790, 0.9)), attending(200, 0.26)), ""),
        ((K(BF16, 795, MM, args=product(795, 0.9)), attending(195, 0.1)), ""),
        ((K(BF16, 790, MM, args=product(790, 0.9)), attending(200, 0.24)), "attention takes 20 %"),
        ((attending(990, 0.12),), "the kernels reach 12 % of the card's rates"),
    ],
)
def test_a_busy_gpu_is_healthy_only_where_it_comes_near_the_card(
    kernels: tuple[K, ...], why: str
) -> None:
    judged = diagnosed(busy_with(*kernels))
    assert [found.rule for found in judged.findings] == ["compute-bound" if why else "healthy"]
    assert why in reasons(judged).get("healthy", "")
    asks = "shapes" if "not recorded" in why else "modules" if why else ""
    asked = [(one.evidence.value, one.share) for one in judged.questions]
    assert asked == ([(asks, pytest.approx(0.99))] if asks else [])


def test_the_largest_savings_are_named_first_and_what_is_not_known_is_said() -> None:
    story = busy_with(attending(500, 0.1), K(BF16, 490, MM, args=product(490, 0.8)))
    assert answer_to(finding_of(story, "compute-bound")).startswith("take the fastest path")
    assert finding_of(story, "compute-bound").sentence == (
        "The GPU is the limit: it computes 990 µs of each 1.0 ms step (99 %). Of its kernels' "
        "time: attention 51 %, matrix products 49 %. They reach 45 % of the card's rates; at the "
        "full rates up to 450 µs less in attention (reaches 10 %), 98 µs in matrix products "
        "(reaches 80 %). aten::_flash_attention_forward of 1x1024x184x64 1x1024x184x64 "
        "1x1024x184x64 reaches 10 % of the card's arithmetic rate."
    )
    story = busy_with(K(BF16, 490, MM, args=product(490, 0.8)), K(BF16, 500))
    assert (
        "They reach 80 % of the card's rates, as far as that is known (49 % of their time); at "
    ) in finding_of(story, "compute-bound").sentence


def test_what_runs_side_by_side_reaches_more_together() -> None:
    """Two products on two streams, each at half of the rate that they reach together."""
    story = TraceBuilder(fields={"deviceProperties": [H100]})
    for at in (0, 1):
        story.at(us(10 * at)).op("aten::mm", us(5), **product(100, 0.4))
        story.at(us(10 * at + 1)).launch(BF16, us(100), starts=us(50), stream=7 + at)
    used = roofline(story.analysis())
    assert used.reached == pytest.approx(0.8, rel=0.01)
    assert (used.known, used.kinds[0].reached) == (1.0, pytest.approx(0.4, rel=0.01))


def measured(gpu: str, *, tera: float) -> None:
    """Keep what ``perftui probe`` might measure on a card of that name."""
    rates = ((Ceiling.FLOAT32, 50e12), (Ceiling.MEMORY, 3e12), (Ceiling.BFLOAT16, tera * 1e12))
    found = tuple(rate_of(name, "FLOP/s", [[value]], "") for name, value in rates)
    assert keep(Ceilings("a host", 1, found, gpu, "580.1"))


SAID = "aten::mm of 4096x4096 4096x4096 reaches "


def said_of(card: dict[str, object]) -> str:
    additions = [K(ADD, 50, ("aten::add",))] * 9
    return finding_of(busy_with(*SHAPED, *additions, card=card), "compute-bound").sentence


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
    found = roofline(open_trace(busy_with(*SHAPED, card=unlisted).write(tmp_path / "trace.json")))
    assert found.card.is_measured
    assert found.peaks.half == 1000
