"""Traces for rules, told step by step: of the host, and of kernels that keep a GPU busy."""

from typing import Any, NamedTuple

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.facts.fact import Facts
from perftui.run.reader import RunSnapshot
from tests.traces.builder import SINGLE, TraceBuilder, ms, us

DEVICES = {"deviceProperties": [{"id": 0, "name": "H200"}, {"id": 1, "name": "H200"}]}
CALL = us(2)


Subject = TraceBuilder | RunSnapshot | Facts | Diagnosis
"""What rules judge, or what they have said of it."""


def diagnosed(subject: Subject, run: RunSnapshot | None = None) -> Diagnosis:
    """What the rules say of a run, or of a trace with or without its run."""
    if isinstance(subject, Diagnosis):
        return subject
    if isinstance(subject, TraceBuilder):
        subject = Facts(run, subject.analysis())
    return diagnosis(subject if isinstance(subject, Facts) else Facts(subject))


def found(subject: Subject, rule: str) -> Finding | None:
    """What that rule says."""
    return next((one for one in diagnosed(subject).findings if one.rule == rule), None)


def finding_of(subject: Subject, rule: str, run: RunSnapshot | None = None) -> Finding:
    """What that rule says, which is to say something."""
    judged = diagnosed(subject, run)
    finding = found(judged, rule)
    assert finding is not None, judged.abstentions
    return finding


def without(story: TraceBuilder, text: str) -> TraceBuilder:
    """The story but for what has that text in its name."""
    story.spans = [span for span in story.spans if text not in span.name]
    return story


def top_of(subject: Subject) -> Finding:
    """What is said first, which is to be something."""
    top = diagnosed(subject).top
    assert top is not None
    return top


def severity_of(finding: Finding | None) -> Severity | None:
    return finding.severity if finding else None


def reasons(subject: Subject) -> dict[str, str]:
    """Why rules say nothing."""
    return {each.rule: each.reason for each in diagnosed(subject).abstentions}


def training() -> TraceBuilder:
    return TraceBuilder(fields=DEVICES)


def synchronising(idle: int, steps: int = 4, story: TraceBuilder | None = None) -> TraceBuilder:
    """The host waits for each kernel, at one line of the script; then the GPU idles (us)."""

    def step(t: TraceBuilder) -> None:
        t.step().launch("gemm", us(1000 - idle), call=CALL, starts=t.now).pause(us(1))
        t.frame("train.py(31): main").op("aten::item").pause(us(1)).sync(us(996)).end()

    story = (story or training()).repeat(steps, step)
    return story.launch("gemm", us(1), call=CALL, starts=story.now)


def on_another_device(story: TraceBuilder, every: int = 500) -> TraceBuilder:
    """Short kernels on device 1, each waited for: it idles longer, but is less busy."""
    for start in range(us(5), ms(4), us(every)):
        story.at(start).launch("gemm", us(5), call=CALL, starts=start, device=1)
    return story


def warming_up(*lengths: int) -> TraceBuilder:
    """Steps of such lengths (us), and then one that synchronises."""
    story = training()
    for length in lengths:
        story.step().launch("gemm", us(length), call=CALL, starts=story.now)
        story.pause(us(length) - CALL).end()
    return synchronising(300, steps=1, story=story)


def launching(
    kernels: int = 100, length: float = 8, every: float = 10, late: bool = True
) -> TraceBuilder:
    """Short kernels; each is launched once the last one is over, or all a step ahead of time."""

    def step(t: TraceBuilder) -> None:
        begin, span = t.now, us(kernels * every)
        t.step().kernel("ProfilerStep", span, starts=begin, category="gpu_user_annotation")
        for number in range(kernels):
            at = begin + us(number * every)
            starts = at + us(every - length)
            if late:
                t.at(at).op(f"aten::add{number}", us(every)).at(starts - CALL)
            else:
                t.at(begin - span + us(number))
            t.launch("add", us(length), call=CALL, starts=starts)
        t.at(begin + span).end()

    return training().repeat(4, step)


def product(lasting: float, reached: float = 0.7) -> dict[str, Any]:
    """Arguments of a product in 16 bits that takes so many us at that share of an H100's rate."""
    rows = round(reached * lasting * 989.4e6 / (2 * 4096 * 4096))
    return {"Input Dims": [[rows, 4096], [4096, 4096]], "Input type": ["c10::BFloat16"] * 2}


def busy(share: float) -> TraceBuilder:
    """A GPU that computes for such a share of the time, and does it well."""
    story = training()
    return story.repeat(
        3,
        lambda t: (
            t.step()
            .op("aten::mm", **product(1000 * share))
            .launch("gemm", round(ms(1) * share), call=CALL, starts=t.now)
            .close()
            .pause(ms(1) - CALL)
            .end()
        ),
    )


def waiting(wait: int, hidden: bool = False, steps: int = 4, loader: str = SINGLE) -> TraceBuilder:
    """Steps that begin with so many us in the loader, hidden behind a kernel or not."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().data_wait(us(wait), loader)
        starts = begin if hidden else t.now
        t.at(starts - us(5) if hidden else starts)
        t.launch("gemm", begin + ms(1) - starts, call=CALL, starts=starts).at(begin + ms(1)).end()

    return training().repeat(steps, step)


def forward_passes(computing: float = 1.0) -> TraceBuilder:
    """Forward passes on the CPU, with operators for that share of their time."""
    at_work = round(ms(1) * computing)
    return training().repeat(
        3, lambda t: t.step().forward().op("aten::mm", at_work).pause(ms(1) - at_work).end()
    )


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


QUERIES = {"Input Dims": [[8, 64, 16], [8, 16, 64]]}
SCORES = {"Input Dims": [[2, 4, 64, 64], []]}
VALUES = {"Input Dims": [[8, 64, 64], [8, 64, 16]]}
"""Sizes of the first product of attention, of its softmax and of its second product."""


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
                args = kernel.args if is_innermost else None
                t.range(op) if op.startswith("nn.Module: ") else t.op(op, **(args or {}))
            t.launch(kernel.name, us(kernel.us), call=20, starts=max(free, t.now + 20))
            free = max(free, t.now) + us(kernel.us)
            for _ in kernel.ops:
                t.close()
        t.at(begin + ms(1)).end()

    return TraceBuilder(fields={"deviceProperties": [card or H100]}).repeat(steps, step)
