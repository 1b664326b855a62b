"""From which value on rules speak, what they leave alone, and where they do not judge."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from perftui.diagnosis.model import Severity
from perftui.run.manifest import Status
from tests.core.diagnosis import test_collectives as collectives
from tests.core.diagnosis import test_costly_operators as costly_operators
from tests.core.diagnosis import test_cpu as cpu
from tests.core.diagnosis import test_debugging as debugging
from tests.core.diagnosis import test_gpu_idle as gpu_idle
from tests.core.diagnosis import test_growth as growth
from tests.core.diagnosis import test_input_wait as input_wait
from tests.core.diagnosis import test_kernels as kernels
from tests.core.diagnosis import test_looks as looks
from tests.core.diagnosis import test_loops as loops
from tests.core.diagnosis import test_machine as machine
from tests.core.diagnosis import test_memory as memory
from tests.core.diagnosis import test_needless_work as needless_work
from tests.core.diagnosis import test_operator_work as operator_work
from tests.core.diagnosis import test_passes as passes
from tests.core.diagnosis import test_recording as recording
from tests.core.diagnosis import test_script_python as script_python
from tests.core.diagnosis import test_slow_steps as slow_steps
from tests.core.diagnosis import test_steps_of_a_run as steps_of_a_run
from tests.core.diagnosis import test_straggler as straggler
from tests.core.diagnosis import test_trace_alone as trace_alone
from tests.core.diagnosis import test_uneven_ranks as uneven_ranks
from tests.core.diagnosis.runs import (
    MS,
    ON_GPU,
    card_samples,
    make_run,
    run_of,
    step_table,
    telemetry_table,
    with_tables,
)
from tests.core.diagnosis.stories import (
    ADD,
    BF16,
    SGEMM,
    SOFTMAX,
    K,
    Subject,
    busy,
    busy_with,
    diagnosed,
    found,
    launching,
    reasons,
    severity_of,
    synchronising,
    training,
    without,
)
from tests.traces.builder import TraceBuilder, ms, us

Story = Callable[[], Subject]

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL
KIB, MIB = 1 << 10, 1 << 20

EVEN = straggler.EVEN
STEADY = step_table(100, {"forward": 100})

LIMITS: tuple[tuple[str, Callable[[Any], Subject], dict[Any, Severity | None]], ...] = (
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
    ("host-calls", recording.calling, {1.4: None, 1.6: WARNING, 2.6: CRITICAL}),
    ("trace-incomplete", lambda n: recording.losing(n, 1000 - n),
     {0: None, 4: None, 5: INFO, 49: INFO}),
    # Kernels
    ("compute-bound", busy, {0.79: None, 0.8: INFO}),
    ("largest-part", busy, {0.79: WARNING, 0.8: WARNING}),
    ("sorting", lambda us: costly_operators.sorting(us, "aten::sort"),
     {99: None, 101: WARNING, 299: WARNING, 301: CRITICAL}),
    ("float64", operator_work.computing, {49: None, 51: WARNING, 300: CRITICAL}),
    ("float64", lambda ms: operator_work.forward(
        (2, ms, ("aten::linalg_cholesky",)), note=operator_work.floats(dtype="float64")),
     {20: INFO}),
    ("slow-operator", lambda ms: operator_work.forward((2, ms, ("aten::linalg_cholesky",))),
     {20: INFO, 40: INFO}),
    ("matmul-fp32",
     lambda us: busy_with(K(SGEMM, us, ("aten::mm",)), K(BF16, 999 - us, ("aten::mm",))),
     {99: None, 100: WARNING, 700: CRITICAL}),
    ("layout-conversion", lambda us: busy_with(K(kernels.TO_NHWC, us), K(BF16, 989 - us)),
     {19: None, 20: WARNING, 21: WARNING}),
    ("cudnn-benchmark", lambda us: kernels.searching(2, call=us),
     {3.3: None, 3.4: WARNING, 20: CRITICAL}),
    ("cudnn-benchmark-off", kernels.judged_convolutions, {0.29: None, 0.31: INFO, 0.4: INFO}),
    ("optimizer-single-tensor", kernels.facts_of, {9.9: None, 10.1: WARNING, 30: CRITICAL}),
    ("optimizer-single-tensor", lambda device: kernels.facts_of(device=device, foreach=False),
     {"cpu": CRITICAL, "cuda:0": CRITICAL}),
    ("emulated-precision", lambda kind: looks.short_numbers(["avx512_bf16"], kind),
     {"bfloat16": None, "float16": CRITICAL}),
    ("emulated-precision", lambda isa: looks.short_numbers(["avx512_bf16"], isa=isa),
     {"AVX512_CORE_BF16": None, "AVX2": CRITICAL}),
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
    ("backward-recompute", operator_work.backward, {1400: None, 2900: INFO, 6000: WARNING}),
    ("unused-gradients",
     lambda n: operator_work.backward(note=operator_work.floats(unused=1, unused_elements=n)),
     {890_000: None, 3_000_000: WARNING}),
    ("dense-gradients", operator_work.dense, {900_000: None, 2_900_000: WARNING}),
    ("dense-gradients", lambda ms: operator_work.dense(optimizer=ms), {1: None, 10: WARNING}),
    ("repeated-forward", operator_work.passes, {0.78: None, 0.8: WARNING}),
    ("dropped-results", costly_operators.last_position, {2: None, 3: WARNING}),
    ("zero-term", needless_work.term, {2.4: None, 2.6: WARNING, 11: CRITICAL}),
    ("filled-gradients", needless_work.pieces, {0.49: None, 0.51: WARNING, 2.1: CRITICAL}),
    ("filled-gradients", needless_work.assigned, {0.49: None, 0.51: WARNING}),
    ("expanded-operand", needless_work.expanded, {2.4: None, 2.6: WARNING, 11: CRITICAL}),
    ("many-backward-passes", passes.passes, {7: None, 20: CRITICAL}),
    ("repeated-backward", lambda ms: passes.losses(again=ms), {1.3: None, 1.5: WARNING}),
    ("unused-gradients", passes.gan, {0.85: None, 1.1: WARNING, 6: CRITICAL}),
    ("evaluation", passes.passes_alone_of, {6: None, 10: CRITICAL}),
    ("evaluation", lambda ms: passes.passes_alone_of(10, ms), {0.37: None, 2: CRITICAL}),
    # Cores
    ("cpu-threads", lambda ms: cpu.facts_of(cpu.settings(1), cpu.window(ms)),
     {1.42: None, 1.43: WARNING}),
    ("cpu-threads",
     lambda percent: cpu.facts_of(cpu.settings(1), cores=2, **cpu.with_workers(percent)),
     {9: CRITICAL, 10: None}),
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
    ("own-process", cpu.fed, {1.5: None, 2: INFO}),
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
    # sm_95 is code for a later architecture of the same generation.
    ("wrong-build", machine.built_for, dict.fromkeys(("sm_75 sm_80", "sm_95"), CRITICAL)),
    ("wrong-build", machine.built_for, dict.fromkeys(("sm_80 sm_90", "sm_90a compute_90"))),
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
    ("python-bound", lambda ms: script_python.logging(
        ms, (0.6, 15, "report", script_python.JSON), (0.4, 25, "check", script_python.JSON)),
     {16: INFO, 17: WARNING}),
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
    ("recompiles", slow_steps.compiling_now_and_then, {22: None, 20: WARNING}),
    ("slow-steps", lambda share: with_tables(
        run_of(slow_steps.NOW_AND_THEN), **machine.held(share)), {0.5: None, 0.499: CRITICAL}),
    ("profiler-overhead", debugging.profiled, {149: None, 150: INFO}),
    ("gc-pauses", slow_steps.collecting, {0.9: None, 1: INFO, 5: WARNING, 30: CRITICAL}),
    ("compile-not-paid", debugging.compiling, {2.6: None, 2.7: INFO}),
    ("compile-not-paid", lambda s: debugging.compiling(s, first=9, steps=30),
     {2.3: None, 2.4: INFO}),
)  # fmt: skip


@pytest.mark.parametrize(("rule", "story", "said"), LIMITS, ids=[rule for rule, *_ in LIMITS])
def test_a_rule_speaks_from_its_limits_on(
    rule: str, story: Callable[[Any], Subject], said: dict[float, Severity | None]
) -> None:
    assert {value: severity_of(found(story(value), rule)) for value in said} == said


ENABLED = {"mkldnn": {"available": True, "enabled": True}}
WINDOWLESS = make_run(phases={"forward": 10, "backward": 10, "optimizer": 10, "other": 10})
DELAYED = {"processes.delayed": 40}
STEPS = 60
NAN = float("nan")
OF_BUSY_HOST = {"pressure.cpu": 50}


def environment(**names: str) -> dict[str, object]:
    return {"events": debugging.settings(environment=names)}


SILENT: tuple[tuple[str, str, Story], ...] = (
    # Collectives
    ("bucket-copies", "gradients lie in buckets",
     lambda: diagnosed(
         collectives.copying(60), collectives.run_with(gradient_as_bucket_view=True))),
    ("bucket-copies", "no copies", lambda: collectives.reducing_at_once(100 * MIB)),
    ("single-bucket", "hidden", lambda: collectives.reducing_at_once(100 * MIB, hidden=True)),
    ("single-bucket", "no wrapper",
     lambda: without(collectives.reducing_at_once(100 * MIB), "Distributed")),
    ("many-small-reductions", "no sizes", lambda: collectives.reducing(40, 0, dtype="Float")),
    ("slow-network", "little exposed", lambda: collectives.moving(25, 0.1, card="NVIDIA H100 NVL")),
    ("slow-network", "one rank", lambda: collectives.moving(25, 2, ranks=1)),
    ("slow-network", "several machines", lambda: collectives.moving(25, 2, ranks=16)),
    ("reduce-each-micro-batch", "once a step",
     lambda: diagnosed(straggler.window(40), straggler.run_of(EVEN, EVEN))),
    ("communication-exposed", "no window", lambda: straggler.run_of(EVEN, EVEN)),
    ("reduce-each-micro-batch", "no window", lambda: straggler.run_of(EVEN, EVEN)),
    ("unused-parameters-search", "not asked for",
     lambda: straggler.run_of(EVEN, find_unused_parameters=False)),
    ("unused-parameters-search", "not wrapped", make_run),
    ("wrong-parallelism", "one GPU", lambda: straggler.data_parallel("[0]")),
    ("wrong-parallelism", "no list of GPUs", lambda: straggler.data_parallel("[]")),
    ("wrong-parallelism", "no note", make_run),
    ("wrong-parallelism", "no wrappers",
     lambda: make_run(events=(("settings", {"wrappers": None}),))),
    ("wrong-parallelism", "another wrapper", lambda: straggler.run_of(EVEN)),
    ("straggler", "one process", lambda: straggler.run_of(EVEN)),
    ("uneven-ranks", "one process", make_run),
    ("uneven-memory", "one process", make_run),
    ("uneven-ranks", "always the same", lambda: uneven_ranks.run_of(lambda _: 2, 20)),
    ("uneven-ranks", "mostly the same",
     lambda: uneven_ranks.run_of(lambda step: 2 if step % 10 < 6 else 0, 20)),
    ("straggler", "each in turn", lambda: uneven_ranks.run_of(uneven_ranks.in_turn, 20)),
    ("uneven-memory", "alike", lambda: uneven_ranks.holding(57, 70)),
    ("uneven-memory", "room left", lambda: uneven_ranks.holding(40, 62)),
    ("uneven-memory", "alike, no samples", lambda: uneven_ranks.holding(69, 70, sampled=False)),
    # Idle
    ("sync-bound", "work is queued", gpu_idle.queued),
    ("launch-bound", "dense", lambda: launching(length=9, every=9.99)),
    ("launch-bound", "queued", lambda: launching(every=16, late=False)),
    ("pageable-copies", "pinned", lambda: gpu_idle.copied("HtoD", 200, MIB, pinned=True)),
    ("pageable-copies", "created, not fetched", lambda: gpu_idle.made("aten::full", "aten::triu")),
    ("copies-exposed", "a value that is read", lambda: gpu_idle.copied("DtoH", 200, 4)),
    ("created-on-cpu", "fetched", lambda: gpu_idle.made("aten::normal_", fetched=True)),
    ("created-on-cpu", "only sliced", lambda: gpu_idle.made("aten::slice", "aten::index")),
    ("debug-flags", "launches that do not wait", lambda: debugging.launched(blocking=False)),
    ("debug-flags", "few launches", lambda: debugging.launched(blocking=True, kernels=4)),
    # 6 us in a call of 18 us, all of them alike or some longer: the call does not follow them.
    ("debug-flags", "slow launches", lambda: debugging.call_by_call(us(18))),
    ("debug-flags", "slow launches of unlike kernels",
     lambda: debugging.call_by_call(us(18), (us(2), us(8)))),
    # On a clock of its own the device is done before the launch begins.
    ("debug-flags", "another clock", lambda: debugging.call_by_call(us(10), delay=-us(20))),
    ("debug-flags", "a check of the script's own",
     lambda: TraceBuilder().repeat(4, lambda t: t.step().op("aten::isnan", us(900)).end())),
    ("debug-flags", "no GPU", lambda: make_run(**environment(CUDA_LAUNCH_BLOCKING="1"))),
    ("debug-flags", "switched off",
     lambda: make_run(**ON_GPU, **environment(CUDA_LAUNCH_BLOCKING="0"))),
    ("debug-flags", "a word of NCCL", lambda: make_run(**environment(NCCL_DEBUG="INFO"))),
    ("profiler-overhead", "no profiler", make_run),
    ("initialisation", "many steps", lambda: recording.starting(100, 8)),
    ("initialisation", "something longer", lambda: recording.starting(100, 4, pause=150)),
    ("trace-incomplete", "on the CPU",
     lambda: recording.convolving(ms(100), "aten::mkldnn_convolution")),
    ("trace-incomplete", "a question",
     lambda: recording.convolving(ms(100), "aten::cudnn_is_acceptable")),
    # Kernels
    ("sorting", "gradients of an embedding, which no script can leave out",
     lambda: costly_operators.sorting(500, "aten::embedding_dense_backward")),
    ("sorting", "neighbours alone",
     lambda: costly_operators.sorting(500, "aten::unique_consecutive")),
    ("sorting", "a search", lambda: costly_operators.sorting(500, "aten::searchsorted")),
    ("sorting", "few unknown operators", lambda: costly_operators.sorting(99)),
    ("float64", "sorting alone",
     lambda: costly_operators.sorting(
         300, "aten::sort", name=costly_operators.RADIX.format("double"))),
    ("matmul-fp32", "no TF32", lambda: busy_with(K(SGEMM, 900), card=kernels.V100)),
    ("matmul-fp32", "a card with slow TF32",
     lambda: busy_with(K(SGEMM, 900), card=kernels.GEFORCE)),
    ("tensor-cores-unused", "one finding is enough",
     lambda: busy_with(K(SGEMM, 700, ("aten::addmm",)), K(ADD, 290, ("aten::add",)))),
    ("unfused-attention", "softmax of a loss",
     lambda: busy_with(K(BF16, 400, ("aten::mm",)), K(SOFTMAX, 590, ("aten::_softmax",)))),
    ("unfused-attention", "the slow path of torch", kernels.slow_path),
    ("dtype-churn", "autocast",
     lambda: busy_with(
         *[K(ADD, 50, ("aten::linear", *kernels.CAST)), K(BF16, 190, ("aten::mm",))] * 4)),
    ("misaligned-dims", "convolutions",
     lambda: busy_with(K(kernels.ALIGN2, 600, ("aten::convolution_backward",)), K(BF16, 390))),
    ("conv-bias-before-bn", "no normalisation",
     lambda: busy_with(K(BF16, 400), kernels.BIASED, K(BF16, 540, ("aten::relu",)))),
    ("cudnn-benchmark", "few kernels", lambda: kernels.searching(20, 20, kernels=11)),
    ("cudnn-benchmark-off", "one step of few", lambda: kernels.judged_convolutions(0.2, steps=1)),
    *(("cudnn-benchmark-off", str(told),
       lambda told=told: kernels.judged_convolutions(share=0.4, **told))
      for told in (
          {"names": (kernels.CONVOLUTION, kernels.OTHER)}, {"sizes": (224, 196)},
          {"benchmark": True}, {"benchmark": None}, {"deterministic": True})),
    # On a GPU torch takes foreach by itself.
    *(("optimizer-single-tensor", str(told), lambda told=told: kernels.facts_of(**told))
      for told in (
          {"fused": True}, {"foreach": True}, {"device": "cuda:0"}, {"differentiable": True},
          {"name": "mine.Lion"}, {"parameters": 49})),
    *(("emulated-precision", str(told), lambda told=told: looks.short_numbers(*told))
      for told in ((["asimdhp"], "float16"), ([], ""))),
    ("optimizer-single-tensor", "kernels of many tensors",
     lambda: loops.stepping_on_gpu(200, loops.FUSED)),
    ("per-parameter-loop", "waits",
     lambda: loops.averaging_on_gpu(80, "aten::linalg_vector_norm", "aten::item")),
    ("zero-grad-memset", "other zeros", lambda: loops.zeroing(100, mark="prepare")),
    # Operators on the CPU
    ("loop-of-indexing", "pieces far apart", lambda: loops.matching(300, between=1)),
    ("unfused-attention", "fused", lambda: operator_work.attending(3_000, fused=True)),
    ("unfused-attention", "a gate",
     lambda: operator_work.attending(3_000, scores={"Input Dims": [[8, 4], []]})),
    ("layout-copies", "casts", lambda: operator_work.forward((10, 2.5, operator_work.CASTS))),
    ("layout-copies", "of torch's own attention",
     lambda: operator_work.forward((10, 2.5, (kernels.MATH, *operator_work.COPIES)))),
    ("slow-operator", "little of a trace",
     lambda: trace_alone.plain(("aten::rand", "aten::uniform_", 2.4))),
    ("slow-operator", "the second derivative of an activation",
     lambda: operator_work.forward((2, 40, ("TanhBackwardBackward0",)))),
    ("slow-operator", "an autograd.Function of the script",
     lambda: operator_work.forward((2, 40, ("Propagate",)))),
    ("slow-operator", "a range of the script that passes for an operator",
     lambda: trace_alone.plain(("load the batch", "aten::uniform_", 6))),
    ("host-calls", "beside kernels", lambda: recording.calling(4).launch("gemm", ms(1))),
    ("filled-gradients", "one piece of each", lambda: needless_work.pieces(5, tensors=10)),
    ("expanded-operand", "nothing is made larger", lambda: needless_work.expanded(9, sums=False)),
    ("expanded-operand", "another copy", lambda: needless_work.expanded(9, follows=False)),
    ("expanded-operand", "no product", lambda: needless_work.expanded(9, product="aten::gelu")),
    # More of them play or generate.
    ("repeated-forward", "three times", lambda: operator_work.passes(2, times=3)),
    ("repeated-forward", "once", lambda: operator_work.passes(0)),
    ("repeated-forward", "a teacher", lambda: operator_work.passes(5, tensors=120)),
    # Nothing tells whether the model that runs again is the one that is trained.
    ("repeated-forward", "no note", lambda: operator_work.passes(5, noted=False)),
    ("float64", "float32", operator_work.forward),
    ("dropped-results", "queries, keys and values",
     lambda: costly_operators.last_position(behind=("aten::select",) * 3)),
    ("dropped-results", "all used", lambda: costly_operators.last_position(behind=("aten::gelu",))),
    ("dropped-results", "a gather of all",
     lambda: costly_operators.last_position(behind=("aten::log_softmax", "aten::gather"))),
    ("dropped-results", "a piece of another tensor",
     lambda: costly_operators.last_position(behind=("aten::index",), node="TanhBackward0")),
    ("dropped-results", "a factor",
     lambda: costly_operators.last_position(behind=("aten::index_select", "aten::mul"),
                                            node="IndexSelectBackward0")),
    ("ignored-targets", "few ignored", lambda: costly_operators.masked(240)),
    ("ignored-targets", "padding", lambda: costly_operators.masked(900, padded=700)),
    ("ignored-targets", "another loss", lambda: costly_operators.masked(900, near=False)),
    ("dropped-results", "a slice", lambda: costly_operators.last_position(behind=("aten::slice",))),
    ("many-backward-passes", "little lost", lambda: passes.passes(10, 50, 20_000)),
    ("repeated-backward", "own graphs", lambda: passes.losses(number=2)),
    ("repeated-backward", "gradients are dropped", lambda: passes.losses(adds=False)),
    ("repeated-backward", "copied", lambda: passes.losses(between=("aten::clone", "aten::clone"))),
    ("repeated-backward", "second derivative", lambda: passes.losses(keeps=True)),
    ("repeated-backward", "no numbers", lambda: passes.losses(number=None)),
    *((rule, "no window", lambda: WINDOWLESS) for rule in (
        "dense-gradients", "unused-gradients", "repeated-forward", "backward-recompute",
        "unfused-attention", "dtype-churn", "layout-copies", "memory-bound-elementwise",
        "slow-operator", "float64", "repeated-backward", "dropped-results", "filled-gradients",
        "expanded-operand",
        "many-backward-passes", "per-parameter-loop", "loop-of-indexing", "evaluation")),
    ("onednn-off", "little", lambda: trace_alone.plain((*trace_alone.SLOW, 2.4))),
    ("onednn-off", "beside those of oneDNN",
     lambda: trace_alone.plain((*trace_alone.SLOW, 5), trace_alone.FAST)),
    ("onednn-off", "those of oneDNN", lambda: trace_alone.plain(trace_alone.FAST)),
    ("onednn-off", "beside a GPU",
     lambda: trace_alone.plain((*trace_alone.SLOW, 5)).launch("gemm", ms(900)).sync()),
    ("onednn-off", "not told", lambda: cpu.facts_of((), cpu.window(6, "aten::convolution"))),
    ("onednn-off", "other operators",
     lambda: cpu.facts_of(cpu.settings(8, **cpu.OFF), busy=8, own=8)),
    ("onednn-off", "on", lambda: cpu.convolving(6, **ENABLED)),
    # Cores
    ("cpu-threads", "short operators",
     lambda: cpu.facts_of(cpu.settings(1), cpu.window(8, calls=100))),
    ("cpu-threads", "random numbers",
     lambda: cpu.facts_of(cpu.settings(1), cpu.window(8, "aten::normal_"))),
    ("cpu-threads", "no idle core", lambda: cpu.facts_of(cpu.settings(1), busy=7.8)),
    ("cpu-threads", "as many as cores", lambda: cpu.facts_of(cpu.settings(8), busy=8, own=8)),
    ("cpu-threads", "which wait", lambda: cpu.facts_of(cpu.settings(8), busy=2, own=2)),
    ("cpu-threads", "not told", lambda: cpu.facts_of(())),
    ("cpu-threads", "a mask",
     lambda: cpu.facts_of(cpu.settings(threads=2, affinity=2), busy=2, own=2)),
    ("cpu-affinity", "cores are not used",
     lambda: cpu.facts_of(cpu.settings(threads=2, affinity=2), busy=1, own=1)),
    ("cpu-affinity", "others are busy",
     lambda: cpu.facts_of(cpu.settings(threads=2, affinity=2), busy=8, own=2)),
    # OpenMP keeps each thread to a core of its own.
    ("cpu-affinity", "by OpenMP",
     lambda: cpu.facts_of(
         cpu.settings(8, 1, environment={"OMP_PROC_BIND": "true"}), busy=2, own=2)),
    ("cpu-affinity", "too many threads",
     lambda: cpu.facts_of(cpu.settings(threads=8), busy=2, own=2, cores=2)),
    ("busy-host", "perftui itself", lambda: cpu.neighbours(1.7, **{"processes.perftui_cpu": 100})),
    ("own-process", "no processes",
     lambda: cpu.facts_of(cpu.settings(8), busy=8, own=8, **DELAYED)),
    ("largest-part", "waits for a core", lambda: cpu.neighbours(delayed=49)),
    ("largest-part", "waits for a core beside Python",
     lambda: replace(
         script_python.logging(60, (1, 15, "report", script_python.JSON)),
         telemetry=cpu.neighbours(delayed=60).run.telemetry)),
    ("gil-contention", "no samples", machine.facts_of),
    ("gil-contention", "waits for workers", lambda: machine.waiting_for(2)),
    # The machine
    *(("thermal-or-power-cap", f"no {name}",
       lambda name=name: machine.card(**machine.HOT | {name: NAN})) for name in machine.HOT),
    ("thermal-or-power-cap", "idle",
     lambda: machine.card(**machine.HOT | {"throttle_reasons": 0x01, "clock_sm": 1500.0})),
    *(("pcie-degraded", f"no {name}",
       lambda name=name: machine.card(**machine.LINK | {name: NAN, "pcie_width": 8.0}))
      for name in machine.LINK),
    ("pcie-degraded", "full speed", lambda: machine.card(**machine.LINK, pcie_width=16.0)),
    ("shared-gpu", "little memory of others",
     lambda: machine.card(process_memory=15 * machine.GIB)),
    ("shared-gpu", "nothing of processes", machine.card),
    ("wrong-build", "no GPU",
     lambda: machine.facts_of(machine.settings(build=machine.CPU_ONLY, parameters=machine.ON_CPU))),
    ("wrong-build", "not told", lambda: machine.facts_of(gpus=("H100",))),
    ("wrong-build", "no parameters",
     lambda: machine.facts_of(machine.settings(build=machine.CPU_ONLY), gpus=("H100",))),
    ("gpus-unused", "all used",
     lambda: machine.on_cards(machine.settings(**machine.A_GPU), 90, 9, 9, 9)),
    ("gpus-unused", "the model is spread", lambda: machine.on_cards(machine.SPREAD, 90, 0, 0, 0)),
    ("gpus-unused", "not told", lambda: machine.on_cards((), 90, 0, 0, 0)),
    ("gpus-unused", "no samples",
     lambda: machine.facts_of(machine.settings(**machine.A_GPU), **ON_GPU)),
    # Another process may be about to use one that idles now and then.
    ("gpus-unused", "another's",
     lambda: machine.on_cards(machine.settings(**machine.A_GPU), 90, 1, 1, 1)),
    ("swapping", "reads little",
     lambda: machine.swapping(**{"swap.in": 9e5})),
    ("swapping", "little pressure",
     lambda: machine.swapping(**{"pressure.memory": 4.9})),
    ("swapping", "not sampled", machine.facts_of),
    # The GPU's memory
    ("fragmentation", "little", lambda: memory.holding(29, 14, alloc_retries=1)),
    ("fragmentation", "most is used", lambda: memory.holding(40, 21, alloc_retries=1)),
    ("fragmentation", "no card", lambda: memory.holding(40, 20, telemetry=None)),
    ("fragmentation", "no GPU", lambda: memory.holding(-1, 20, gpus=(), allocated=-1)),
    ("memory-headroom", "busy", lambda: memory.with_room(50, 70)),
    ("memory-headroom", "fuller", lambda: memory.with_room(51, 69)),
    ("memory-headroom", "busy is not known", lambda: memory.with_room(50, NAN)),
    ("memory-headroom", "not sampled", lambda: memory.with_room(50, 69, telemetry=None)),
    ("memory-headroom", "no GPU", lambda: memory.with_room(50, 69, reserved=-1)),
    ("memory-headroom", "few blocks say the same", lambda: memory.judged(100)),
    ("small-batch", "too short", lambda: memory.judged(239, 561, 66, 50)),
    ("small-batch", "half full", lambda: memory.judged(240, 560, 67, 50)),
    ("small-batch", "no memory left", lambda: memory.judged(240, 560, 66, 51)),
    ("small-batch", "idle", lambda: memory.judged(0, 100)),
    # Steps of a run
    ("growing-steps", "a busier machine", lambda: run_of(growth.growing(forward=0.5, other=0.1))),
    ("growing-steps", "twice as long", lambda: run_of(growth.growing(forward=0.8, other=0.4))),
    ("no-progress", "no clock", lambda: growth.waiting(45, telemetry=None)),
    ("no-progress", "no step",
     lambda: run_of(step_table(0, {}), status=Status.RUNNING, telemetry=growth.until(90_000))),
    ("padding-waste", "no token ids", input_wait.facts),
    ("padding-waste", "odd notes",
     lambda: input_wait.facts({"rows": "many"}, input_wait.look(0, tokens=0))),
    ("slow-steps", "called checkpoints", lambda: slow_steps.saving(45)),
    ("checkpoint", "slow steps", lambda: slow_steps.saving(1000)),
    ("slow-steps", "the loader", lambda: run_of(slow_steps.every_25th(input_wait=1000))),
    ("slow-steps", "evaluation", slow_steps.evaluating_within),
    ("slow-steps", "checkpoints", lambda: slow_steps.saving_calls(500)),
    ("evaluation", "none", lambda: run_of(step_table(50, slow_steps.USUAL))),
    ("evaluation", "before training", lambda: run_of(slow_steps.preparing(200))),
    ("gc-pauses", "none", lambda: run_of(step_table(60, slow_steps.USUAL))),
    ("compile-not-paid", "running", lambda: debugging.compiling(4, status=Status.RUNNING)),
    ("compile-not-paid", "not compiled", lambda: run_of(step_table(60, {"forward": 100}))),
    ("compile-not-paid", "in later steps", lambda: debugging.compiling(4, first=0.1)),
    ("graph-breaks", "one graph",
     lambda: debugging.compiled("forward", "torch_dynamo_resume_in_forward")),
    ("graph-breaks", "not compiled", lambda: run_of(debugging.STEPS)),
    ("graph-breaks", "in packages",
     lambda: debugging.compiled("torch_dynamo_resume_in_f_at_3", file="/v/site-packages/lib/f.py")),
    ("python-bound", "operators of a training without modules",
     lambda: run_of(step_table(STEPS, {"backward": 50, "other": 50}), *script_python.AT_A_LINE)),
)  # fmt: skip
"""What is judged, and nothing found: by rule, what is so of the story, and the story."""

UNJUDGED: tuple[tuple[str, str, Story, str], ...] = (
    # Collectives
    ("slow-network", "unknown link", lambda: collectives.moving(25, 2, card="NVIDIA H100 NVL"),
     "H100 NVL"),
    ("reduce-each-micro-batch", "no backward passes", lambda: straggler.exchanging(100),
     "the trace marks no backward passes"),
    ("uneven-ranks", "few steps", lambda: uneven_ranks.run_of(uneven_ranks.in_turn, 20, count=12),
     "steps of all ranks"),
    ("uneven-memory", "no samples", lambda: uneven_ranks.holding(50, 70, sampled=False), "sampled"),
    # Idle
    ("pageable-copies", "no GPU", gpu_idle.on_the_cpu_alone, "recorded with CPU activity only"),
    ("copies-exposed", "no GPU", gpu_idle.on_the_cpu_alone, "recorded with CPU activity only"),
    ("initialisation", "a first call of 9.9 ms", lambda: recording.convolving(ms(9.9)),
     "it was not recorded"),
    ("initialisation", "one call alone", lambda: recording.convolving(ms(100), later=0),
     "it was not recorded"),
    ("initialisation", "on the CPU",
     lambda: recording.convolving(ms(100), "aten::mkldnn_convolution"),
     "recorded with CPU activity only"),
    ("sync-bound", "CPU only", lambda: training().step().op("aten::mm", us(500)).end(),
     "no GPU kernels in this trace: recorded with CPU activity only"),
    ("sync-bound", "kernels are lost", lambda: recording.losing(10, 0),
     "no GPU kernels in this trace, though it has 10 launches of them"),
    ("sync-bound", "calls of a device", lambda: training().step().call("hipMalloc", us(9)).end(),
     "no GPU kernels in this trace, though it has calls or events of a device"),
    # Kernels
    ("sorting", "unknown operators", lambda: costly_operators.sorting(1000),
     "does not show which operators"),
    ("cudnn-benchmark", "no steps", lambda: without(kernels.searching(20, 20), "Step#"),
     "its warm-up is not known"),
    ("cudnn-benchmark-off", "one step", lambda: kernels.judged_convolutions(0.4, steps=1),
     "a single step does not show whether sizes stay the same"),
    ("optimizer-single-tensor", "no note", lambda: WINDOWLESS,
     "how the optimizer was created was not recorded"),
    # Operators
    ("unfused-attention", "no sizes", lambda: operator_work.attending(3_000, scores=None),
     "not recorded (--shapes): shapes, to tell whether a softmax is attention"),
    ("unused-gradients", "an older note", operator_work.of_an_older_note,
     "which parameters are in an optimizer was not recorded"),
    ("dense-gradients", "no note", lambda: operator_work.backward(note=None, optimizer=10),
     "the parameters were not recorded"),
    ("float64", "no note", lambda: operator_work.forward(note=None),
     "the data types of the parameters were not recorded"),
    # Cores
    ("cpu-threads", "no operators",
     lambda: cpu.facts_of(
         cpu.settings(1), TraceBuilder().repeat(4, lambda t: t.step().pause(ms(1)).end())),
     "operators"),
    ("busy-host", "not sampled",
     lambda: cpu.facts_of(cpu.settings(8), busy=8, own=3, **OF_BUSY_HOST), "was not sampled"),
    ("own-process", "not sampled", cpu.beside, "was not sampled"),
    ("gil-contention", "at no line",
     lambda: machine.facts_of(stacks=machine.held(0.6, known=False, file="")),
     "none at a line of the script"),
    # The machine
    ("slow-start", "a later part", machine.begun_later, "the first step was not recorded"),
    ("swapping", "no pressure",
     lambda: machine.facts_of(telemetry=telemetry_table(**{"swap.in": 4e6})),
     "this Linux kernel does not report how long tasks waited for memory"),
    # The GPU's memory
    ("fragmentation", "no peaks", lambda: memory.holding(40, 0, peak_allocated=-1),
     "how much memory tensors took within steps was not recorded"),
    ("small-batch", "no launches", lambda: memory.judged(400, 400, block=[1, 1, 1]),
     "the trace does not record the number of blocks per kernel launch"),
    ("small-batch", "memory is not known", lambda: memory.story(400),
     "how much of the GPU's memory a larger batch could take is not known"),
    ("memory-pressure", "not sampled", lambda: steps_of_a_run.judged(**ON_GPU),
     "GPU memory was not sampled"),
    # Steps of a run
    ("growing-steps", "few steps", lambda: run_of(step_table(49, {"forward": 5})),
     "49 of 50 steady steps so far"),
    ("memory-growth", "not sampled", lambda: run_of(step_table(100, {"forward": 100})),
     "memory of the processes was not sampled"),
    ("padding-waste", "one batch", lambda: input_wait.facts(input_wait.look(900)),
     "only a single batch was checked for padding"),
    *(("padding-waste", operator,
       lambda operator=operator: input_wait.facts(*[input_wait.look(900)] * 2, operator=operator),
       "packed or nested sequences")
      for operator in (
          "aten::_pack_padded_sequence", "aten::_nested_tensor_from_tensor_list",
          "flash_attn::_flash_attn_varlen_forward")),
    ("slow-steps", "few steps", lambda: run_of(step_table(19, slow_steps.USUAL)),
     "19 of 20 steady steps so far"),
    ("checkpoint", "beside the training", lambda: slow_steps.saving_calls(500, trains=False),
     "too few stack samples"),
    ("recompiles", "no samples", lambda: run_of(step_table(60, slow_steps.USUAL)),
     "too few stack samples"),
    ("recompiles", "before the steps", lambda: slow_steps.compiled(50, start=-10_000),
     "too few stack samples"),
    ("recompiles", "at no time", lambda: slow_steps.compiled(50, start=None),
     "too few stack samples"),
    ("python-bound", "no samples", lambda: run_of(step_table(STEPS, {"forward": 50, "other": 50})),
     "neither stack samples nor a profiled window show the script"),
)  # fmt: skip
"""What is not judged, and part of the reason."""


@pytest.mark.parametrize(
    ("rule", "story"),
    [(rule, story) for rule, _, story in SILENT],
    ids=[f"{rule}: {what}" for rule, what, _ in SILENT],
)
def test_a_rule_has_nothing_to_say(rule: str, story: Story) -> None:
    judged = diagnosed(story())
    assert found(judged, rule) is None
    assert rule not in reasons(judged)


@pytest.mark.parametrize(
    ("rule", "story", "reason"),
    [(rule, story, reason) for rule, _, story, reason in UNJUDGED],
    ids=[f"{rule}: {what}" for rule, what, *_ in UNJUDGED],
)
def test_a_rule_says_why_it_does_not_judge(rule: str, story: Story, reason: str) -> None:
    judged = diagnosed(story())
    assert found(judged, rule) is None
    assert reason in reasons(judged)[rule]
