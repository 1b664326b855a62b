"""Traces of GPUs that are busy with kernels of given names, in steps of 1 ms."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.traces.builder import TraceBuilder, ms, us

H100: dict[str, Any] = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "computeMajor": 9,
    "numSms": 132,
    "warpSize": 32,
}
SGEMM, BF16 = "ampere_sgemm_128x64_tn", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>"


class K(NamedTuple):
    """A kernel of so many us, launched by an operator or a nest of them, in a phase."""

    name: str
    us: float
    ops: tuple[str, ...] = ()
    phase: str = "forward"
    args: dict[str, Any] | None = None
    """Arguments of the innermost operator."""


def busy_with(*kernels: K, steps: int = 4, card: dict[str, Any] | None = None) -> TraceBuilder:
    """Steps of 1 ms of which those kernels take their time, one behind the other.

    The host launches a step's kernels at its beginning and waits, as it does where it runs ahead.
    """

    def step(t: TraceBuilder) -> None:
        begin, free, phase = t.now, t.now, ""
        t.step()
        for kernel in kernels:
            if kernel.phase != phase:
                t.phase(kernel.phase)
                phase = kernel.phase
            for number, op in enumerate(kernel.ops):
                is_innermost = number == len(kernel.ops) - 1
                t.op(op, **(kernel.args or {} if is_innermost else {}))
            t.launch(kernel.name, us(kernel.us), call=20, starts=max(free, t.now + 20))
            free = max(free, t.now) + us(kernel.us)
            for _ in kernel.ops:
                t.close()
        t.at(begin + ms(1)).end()

    story = TraceBuilder(fields={"deviceProperties": [card or H100]})
    return story.repeat(steps, step)
