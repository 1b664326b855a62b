"""Operators with their time on a GPU: every nanosecond counts once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.intervals import intersect
from perftui.facts.cpu.operators import operators
from perftui.facts.gpu.host_waits import idle_of_host
from tests.core.diagnosis.stories import training
from tests.traces.builder import AUTOGRAD, MAIN, TraceBuilder

Call = tuple[int, int, int, int, int]
"""How many operators around it, its length and that of its kernel, its stream (0 for none), and the
pause behind it; ns."""

CALLS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 400),
        st.integers(0, 900),
        st.integers(0, 2),
        st.integers(0, 300),
    ),
    max_size=4,
)


def tell(t: TraceBuilder, calls: list[Call]) -> None:
    for around, lasting, kernel, stream, pause in calls:
        for _ in range(around):
            t.op("aten::outer").pause(7)
        if stream:
            t.launch("gemm", kernel, call=lasting, stream=stream, starts=t.now + lasting)
        for _ in range(around):
            t.pause(5).close()
        t.pause(pause)


@settings(max_examples=25, deadline=None)
@given(CALLS, CALLS)
def test_the_times_of_operators_and_the_rest_are_those_of_the_device(
    forward: list[Call], backward: list[Call]
) -> None:
    def step(t: TraceBuilder) -> None:
        t.step().forward().op("aten::mm").launch("gemm", 100, call=20).close()
        tell(t, forward)
        t.backward().on(AUTOGRAD).op("aten::mm").launch("gemm", 100, call=20).close()
        tell(t, backward)
        now = t.now
        t.on(MAIN).at(now + 50).end()

    story = training().repeat(3, step)
    ops = operators(story.analysis())
    device, trace = ops.device, ops.trace
    assert device is not None
    idle = intersect(idle_of_host(ops.steps.analysis), ops.steps.times)
    assert int(device.idle.sum() + device.between.sum()) == idle.total
    assert int(ops.own.sum()) + device.unknown == device.computing
    # Moment by moment: the kernel that began first, and the innermost operator.
    kernels = [span for span in story.spans if span.category == "kernel"]
    first, last = ops.steps.on_host.start[0], ops.steps.on_host.end[-1]
    ours = [span for span in kernels if span.launch and first <= span.launch.start < last]
    mine = {moment for span in ours for moment in range(span.start, span.end)}
    before = {
        moment
        for span in kernels
        if span not in ours and span.start < first
        for moment in range(span.start, span.end)
    }
    assert device.computing == len(mine - before)
    spans = [(trace.start[row], trace.ends_of([row])[0], at) for at, row in enumerate(ops.rows)]
    expected = [0] * len(ops.rows)
    for begin, end in zip(idle.start.tolist(), idle.end.tolist(), strict=True):
        for moment in range(begin, end):
            open_ones = [(start, -stop, at) for start, stop, at in spans if start <= moment < stop]
            if open_ones:
                expected[max(open_ones)[2]] += 1
    assert device.idle.tolist() == expected
