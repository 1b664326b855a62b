"""``float64``: kernels that compute in double precision, and where they come from."""

from __future__ import annotations

import pytest

from perftui.diagnosis.model import Severity
from perftui.diagnosis.symptoms.operators.precision import is_float64
from tests.core.diagnosis.stories import CALL, diagnosed, finding_of, found, reasons, training
from tests.traces.builder import TraceBuilder, ms, us

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, {}, std::array<char*, 3ul> >(int)"
MULTIPLY = ELEMENTWISE.format("at::native::BinaryFunctor<double, double, double, Mul<double> >")
MULTIPLY_32 = ELEMENTWISE.format("at::native::BinaryFunctor<float, float, float, Mul<float> >")


@pytest.mark.parametrize(
    "name",
    [
        MULTIPLY,
        ELEMENTWISE.format("log2_kernel_cuda(at::TensorIteratorBase&)::{lambda(double)#1}"),
        "void cunn_SoftMaxForward<4, double, double, double, Epilogue>(double*, int)",
        "void gemv2T_kernel_val<int, int, double, double, double, double, 128, 16, 4>(int)",
        "void dot_kernel<double, 128, 0, cublasDotParams<cublasGemvTensor<double const> > >(int)",
        "volta_dgemm_64x64_nt",
        "cutlass_80_tensorop_d884gemm_64x64_16x3_tn_align1",
        "sm80_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize64x64x16",
        "CatArrayBatchedCopy<double, unsigned int, 3>(double*, int)",
    ],
)
def test_kernels_on_float64_are_known_by_name(name: str) -> None:
    assert is_float64(name)


@pytest.mark.parametrize(
    "name",
    [
        MULTIPLY_32,
        "ampere_sgemm_128x64_nn",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_nt",
        # Learning rates and limits are passed as doubles to kernels on any type.
        "multi_tensor_apply_kernel<Metadata<4>, FusedAdamMathFunctor<float, 4>, float const*, "
        "double, double, double, bool>(Metadata<4>, float const*, double, double)",
        "void nms_kernel_impl<float>(int, double, float const*, unsigned long long*)",
        ELEMENTWISE.format("nan_to_num(c10::optional<double>)::{lambda(float)#1}"),
        "transpose_NCHW2CNHW_V2_2D_WG_off64",
        "void double_buffered_copy<float>(float*)",
    ],
)
def test_other_kernels_are_not(name: str) -> None:
    assert not is_float64(name)


def computing(of_float64: int, steps: int = 20) -> TraceBuilder:
    """Steps of 1 ms, so many us of them in a float64 kernel launched by ``aten::mul``."""

    def step(t: TraceBuilder) -> None:
        t.step().launch("ampere_sgemm", us(1000 - of_float64), call=CALL, starts=t.now)
        starts = t.now - CALL + us(1000 - of_float64)
        t.frame("train.py(12): loss").op("aten::mul")
        t.launch(MULTIPLY, us(of_float64), call=CALL, starts=starts).close().close()
        t.pause(ms(1) - 2 * CALL).end()

    return training().repeat(steps, step)


def test_the_time_is_reported_with_the_line_and_half_of_it_is_lost() -> None:
    finding = finding_of(computing(of_float64=300), "float64")
    assert finding.sentence == (
        "Kernels compute in float64 for 300 µs of each 1.0 ms step (30 %), most of it in "
        "train.py:12: float32 takes half of that or less."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.CRITICAL, us(150))
    place = finding.facts[1].place
    assert place is not None
    assert (place.operator, place.source) == ("aten::mul", "train.py:12")
    assert place.end is not None
    assert place.start is not None
    assert place.end - place.start == us(300)


def test_below_a_twentieth_of_the_compute_nothing_is_found() -> None:
    assert found(diagnosed(computing(of_float64=49)), "float64") is None
    assert finding_of(computing(of_float64=51), "float64").severity is Severity.WARNING


def test_without_kernels_it_is_not_judged() -> None:
    story = training().repeat(3, lambda t: t.step().op("aten::mul", ms(1)).end())
    judged = diagnosed(story)
    assert found(judged, "float64") is None
    assert "no GPU kernels" in reasons(judged)["float64"]
