"""From which value on each rule speaks, and how loud it is then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perftui.diagnosis.model import Finding, Severity
from tests.core.diagnosis import test_collectives as collectives
from tests.core.diagnosis import test_costly_operators as costly_operators
from tests.core.diagnosis import test_cpu as cpu
from tests.core.diagnosis import test_debugging as debugging
from tests.core.diagnosis import test_gpu_idle as gpu_idle
from tests.core.diagnosis import test_growth as growth
from tests.core.diagnosis import test_input_wait as input_wait
from tests.core.diagnosis import test_kernels as kernels
from tests.core.diagnosis import test_loops as loops
from tests.core.diagnosis import test_machine as machine
from tests.core.diagnosis import test_memory as memory
from tests.core.diagnosis import test_operator_work as operator_work
from tests.core.diagnosis import test_passes as passes
from tests.core.diagnosis import test_recording as recording
from tests.core.diagnosis import test_script_python as script_python
from tests.core.diagnosis import test_slow_steps as slow_steps
from tests.core.diagnosis import test_steps_of_a_run as steps_of_a_run
from tests.core.diagnosis import test_straggler as straggler
from tests.core.diagnosis import test_uneven_ranks as uneven_ranks
from tests.core.diagnosis.runs import MS, ON_GPU, card_samples, make_run, run_of, step_table
from tests.core.diagnosis.stories import (
    BF16,
    SGEMM,
    K,
    Subject,
    busy,
    busy_with,
    diagnosed,
    found,
    severity_of,
    synchronising,
)

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
KIB, MIB = 1 << 10, 1 << 20

EVEN = straggler.EVEN
STEADY = step_table(100, {"forward": 100})

LIMITS: tuple[tuple[str, Callable[[Any], Subject | Finding | None], dict[float, Any]], ...] = (
    # Collectives
    ("bucket-copies", collectives.copying, {19: None, 21: INFO, 60: WARNING}),
    ("single-bucket", lambda mib: collectives.reducing_at_once(mib * MIB),
     {49: None, 100: WARNING}),
    ("single-bucket",
     lambda mib: diagnosed(
         collectives.reducing_at_once(100 * MIB),
         collectives.run_with(bucket_bytes_cap=mib * MIB)),
     {25: None, 100: WARNING}),
    ("many-small-reductions", lambda n: collectives.reducing(n, 3 * KIB), {9: None, 40: CRITICAL}),
    ("many-small-reductions", lambda kib: collectives.reducing(40, kib * KIB),
     {256: None, 3: CRITICAL}),
    ("sync-batch-norm", collectives.normalising, {10: None, 20: CRITICAL}),
    ("sync-batch-norm", lambda ms: collectives.normalising(11, ms), {10: None, 2: WARNING}),
    ("slow-network", lambda mib: collectives.moving(mib, 2.5), {85: None, 78: INFO}),
    ("communication-exposed", straggler.exchanging,
     {49: None, 50: INFO, 99: INFO, 100: WARNING, 300: CRITICAL}),
    ("communication-exposed",
     lambda ms: diagnosed(straggler.window(ms), straggler.run_of(EVEN)),
     {8: None, 9: INFO}),
    ("reduce-each-micro-batch",
     lambda ms: diagnosed(straggler.window(ms, micro_batches=4), straggler.run_of(EVEN, EVEN)),
     {11: None, 11.2: WARNING}),
    ("straggler",
     lambda ms: straggler.run_of({**EVEN, "backward": 60 + ms}, {**EVEN, "input_wait": ms}),
     {5.2: None, 5.3: INFO, 12: WARNING}),
    ("uneven-ranks", lambda ms: uneven_ranks.run_of(uneven_ranks.in_turn, ms),
     {6: None, 8: INFO, 20: WARNING}),
    # Idle
    ("sync-bound", synchronising, {49: None, 50: WARNING, 199: WARNING, 200: CRITICAL}),
    ("pageable-copies", lambda us: gpu_idle.copied("HtoD", us, 64), {9: None, 30: INFO}),
    ("many-small-copies", gpu_idle.small_copies, {49: None, 50: CRITICAL}),
    ("copies-exposed", lambda us: gpu_idle.copied("DtoH", us, 1 << 20), {49: None, 50: WARNING}),
    ("created-on-cpu", lambda us: gpu_idle.made("aten::arange", lasting=us),
     {9: None, 10: INFO, 20: INFO}),
    ("allocator-churn", debugging.allocating, {8: None, 9: INFO, 20: INFO, 99: WARNING}),
    ("initialisation", recording.first_use, {999: None, 1100: WARNING, 4000: CRITICAL}),
    ("trace-incomplete", lambda n: recording.losing(n, 1000 - n),
     {0: None, 4: None, 5: INFO, 49: INFO}),
    # Kernels
    ("compute-bound", busy, {0.79: None, 0.8: INFO}),
    ("largest-part", busy, {0.79: WARNING, 0.8: WARNING}),
    ("sorting", lambda us: costly_operators.sorting(us, "aten::sort"),
     {99: None, 101: WARNING, 299: WARNING, 301: CRITICAL}),
    ("float64", operator_work.computing, {49: None, 51: WARNING, 300: CRITICAL}),
    ("matmul-fp32",
     lambda us: busy_with(K(SGEMM, us, ("aten::mm",)), K(BF16, 999 - us, ("aten::mm",))),
     {99: None, 100: WARNING, 700: CRITICAL}),
    ("layout-conversion", lambda us: busy_with(K(kernels.TO_NHWC, us), K(BF16, 989 - us)),
     {19: None, 20: WARNING, 21: WARNING}),
    ("cudnn-benchmark", lambda us: kernels.searching(2, call=us),
     {3.3: None, 3.4: WARNING, 20: CRITICAL}),
    ("cudnn-benchmark-off", kernels.judged_convolutions, {0.29: None, 0.31: INFO, 0.4: INFO}),
    ("optimizer-single-tensor", kernels.facts_of, {9.9: None, 10.1: WARNING, 30: CRITICAL}),
    ("optimizer-single-tensor", loops.stepping_on_gpu, {99: None, 100: CRITICAL}),
    ("optimizer-single-tensor", loops.stepping, {0: None, 49: None, 100: CRITICAL}),
    ("zero-grad-memset", loops.zeroing, {9: None, 10: INFO, 49: INFO, 50: WARNING}),
    # Operators
    ("per-parameter-loop", loops.averaging, {49: None, 60: CRITICAL}),
    ("per-parameter-loop", lambda us: loops.averaging(50, each=us), {2.4: None, 2.8: WARNING}),
    ("per-parameter-loop", lambda n: loops.averaging_on_gpu(n, *loops.AVERAGE),
     {49: None, 60: CRITICAL}),
    ("loop-of-indexing", lambda us: loops.recurrence(10, long=us), {16_000: None, 14_000: WARNING}),
    ("loop-of-indexing", lambda n: loops.recurrence(n, weights=True), {24: None, 40: CRITICAL}),
    ("loop-of-indexing", loops.matching, {99: None, 100: WARNING}),
    ("python-bound", loops.with_python, {10: None, 12: INFO, 100: CRITICAL}),
    ("unfused-attention", operator_work.attending, {990: None, 3000: WARNING}),
    ("backward-recompute", operator_work.backward, {2900: None, 6000: WARNING}),
    ("unused-gradients",
     lambda n: operator_work.backward(note=operator_work.floats(unused=1, unused_elements=n)),
     {890_000: None, 3_000_000: WARNING}),
    ("dense-gradients", operator_work.dense, {900_000: None, 2_900_000: None, 5_000_000: WARNING}),
    ("dense-gradients", lambda ms: operator_work.dense(optimizer=ms), {1: None, 10: WARNING}),
    ("repeated-forward", operator_work.passes, {0.78: None, 0.8: WARNING}),
    ("dropped-results", costly_operators.last_position, {2: None, 3: WARNING}),
    ("many-backward-passes", passes.passes, {7: None, 20: CRITICAL}),
    ("repeated-backward", lambda ms: passes.losses(again=ms), {1.3: None, 1.5: WARNING}),
    ("unused-gradients", passes.gan, {0.85: None, 1.1: WARNING, 6: CRITICAL}),
    ("evaluation", passes.passes_alone_of, {6: None, 10: CRITICAL}),
    ("evaluation", lambda ms: passes.passes_alone_of(10, ms), {0.37: None, 2: CRITICAL}),
    # Cores
    ("cpu-threads", lambda ms: cpu.facts_of(cpu.settings(1), cpu.window(ms)),
     {1.42: None, 1.43: WARNING}),
    ("cpu-threads", lambda n: cpu.facts_of(cpu.settings(threads=n), busy=8, own=8),
     {10: None, 32: CRITICAL}),
    ("cpu-affinity",
     lambda ms: cpu.facts_of(cpu.settings(threads=2, affinity=2), cpu.window(ms), busy=2, own=2),
     {1.6: None, 1.7: WARNING}),
    ("onednn-off", cpu.convolving, {0.98: None, 1: WARNING}),
    ("busy-host", lambda share: cpu.neighbours(delayed=share), {9: None, 29: INFO, 40: WARNING}),
    ("busy-host", cpu.neighbours, {1.5: None, 5: WARNING}),
    ("own-process", lambda share: cpu.beside(**{"processes.delayed": share}),
     {9: None, 29: WARNING, 40: CRITICAL}),
    ("own-process", lambda n: cpu.beside(n, **{"processes.delayed": 40}), {1.5: None, 2: CRITICAL}),
    ("python-bound", lambda share: cpu.neighbours(delayed=share),
     {76: None, 51: INFO, 49: WARNING}),
    ("gil-contention", lambda idle: machine.facts_of(stacks=machine.held(0.9, idle)),
     {0.049: None, 0.05: INFO, 0.3: CRITICAL}),
    ("gil-contention", lambda share: machine.facts_of(stacks=machine.held(share)),
     {0.04: None, 0.499: None, 0.5: CRITICAL}),
    # Machine
    ("thermal-or-power-cap", machine.hot, {1800: None, 1799: WARNING, 1500: WARNING}),
    ("shared-gpu", lambda gib: machine.card(process_memory=(20 - gib) * machine.GIB),
     {10.9: None, 11: WARNING}),
    ("shared-gpu", lambda busy: machine.card(process_memory=9 * machine.GIB, utilization=busy),
     {70: INFO, 71: WARNING}),
    ("slow-start", lambda s: machine.facts_of(started_ns=-1000 * s * MS), {29: None, 30: INFO}),
    ("slow-start", lambda ms: make_run(40, {"forward": ms}, started_ns=-40_000 * MS),
     {4_025: None, 3_975: INFO}),
    ("memory-pressure",
     lambda used: steps_of_a_run.judged(
         **ON_GPU, telemetry=card_samples(used), allocated=1, alloc_retries=1),
     {89.9: None, 90: WARNING, 96.9: WARNING, 97: CRITICAL}),
    ("memory-growth", memory.growing, {0.31: None, 0.33: WARNING}),
    ("memory-growth", lambda mib: run_of(STEADY, telemetry=growth.memory(STEADY, 400, mib)),
     {450: None, 470: INFO, 700: WARNING}),
    ("memory-growth", lambda mib: run_of(STEADY, telemetry=growth.memory(STEADY, 4000, mib)),
     {4400: None, 4440: INFO}),
    # Steps of a run
    ("input-in-main-thread", lambda ms: steps_of_a_run.waiting(ms, steps_of_a_run.IN_MAIN),
     {4.99: None, 5: WARNING}),
    ("input-bound", lambda ms: steps_of_a_run.waiting(ms, steps_of_a_run.WORKERS),
     {9.99: None, 10: WARNING}),
    ("loader-start", lambda ms: input_wait.starting(ms), {5: None, 5.1: WARNING, 20.3: CRITICAL}),
    ("padding-waste", lambda n: input_wait.facts(input_wait.look(n), input_wait.look(n)),
     {249: None, 250: WARNING, 640: CRITICAL}),
    ("padding-waste", lambda ms: input_wait.facts(*[input_wait.look(250)] * 2, computing=ms),
     {3: None, 7: INFO, 8: WARNING}),
    ("largest-part", lambda ms: make_run(phases={"other": ms, "forward": 100 - ms}),
     {9.9: None, 10.1: INFO, 15.1: WARNING, 25.1: CRITICAL}),
    ("python-bound", lambda ms: script_python.logging(ms, (1.0, 15, "report", script_python.JSON)),
     {4.9: None, 9.9: INFO, 10: WARNING}),
    ("growing-steps", lambda ms: run_of(growth.growing(other=ms)),
     {0.031: None, 0.032: INFO, 0.05: INFO, 0.08: WARNING}),
    ("growing-steps", lambda ms: run_of(growth.growing(forward=ms)), {0.19: None, 0.3: CRITICAL}),
    ("no-progress", growth.waiting, {29.9: None, 30.1: WARNING}),
    ("no-progress", lambda s: growth.waiting(s, step=2000), {37: None, 41: WARNING}),
    ("checkpoint", slow_steps.saving, {26: None, 27: WARNING, 45: WARNING}),
    ("slow-steps", slow_steps.saving, {55: None, 56: WARNING, 1000: CRITICAL}),
    ("slow-steps", lambda ms: slow_steps.saving(ms, stage=""), {240: None, 250: CRITICAL}),
    ("checkpoint", slow_steps.saving_calls, {26: None, 27: WARNING}),
    ("evaluation", slow_steps.evaluating, {12: None, 13: WARNING, 50: CRITICAL}),
    ("recompiles", slow_steps.compiling, {0.04: None, 0.5: CRITICAL}),
    ("recompiles", slow_steps.compiled, {4.9: None, 5: WARNING}),
    ("recompiles", lambda n: slow_steps.compiled(300, steps=n), {2: INFO, 3: WARNING}),
    ("gc-pauses", slow_steps.collecting, {0.9: None, 1: INFO, 5: WARNING, 30: CRITICAL}),
    ("compile-not-paid", debugging.compiling, {2.6: None, 2.7: INFO}),
    ("compile-not-paid", lambda s: debugging.compiling(s, first=9, steps=30),
     {2.3: None, 2.4: INFO}),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "story", "said"), LIMITS, ids=[rule for rule, *_ in LIMITS])
def test_a_rule_speaks_from_its_limits_on(
    rule: str, story: Callable[[Any], Subject | Finding | None], said: dict[float, Severity | None]
) -> None:
    def severity(value: float) -> Severity | None:
        told = story(value)
        return severity_of(told if told is None or isinstance(told, Finding) else found(told, rule))

    assert {value: severity(value) for value in said} == said
