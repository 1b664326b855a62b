"""What rules leave alone, and why they do not judge where they cannot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perftui.run.manifest import Status
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
from tests.core.diagnosis import test_trace_alone as trace_alone
from tests.core.diagnosis import test_uneven_ranks as uneven_ranks
from tests.core.diagnosis.runs import ON_GPU, make_run, run_of, step_table, telemetry_table
from tests.core.diagnosis.stories import (
    ADD,
    BF16,
    SGEMM,
    SOFTMAX,
    K,
    Subject,
    busy_with,
    diagnosed,
    found,
    launching,
    reasons,
    training,
    without,
)
from tests.traces.builder import TraceBuilder, ms, us

KIB, MIB = 1 << 10, 1 << 20
ENABLED = {"mkldnn": {"available": True, "enabled": True}}
WINDOWLESS = make_run(phases={"forward": 10, "backward": 10, "optimizer": 10, "other": 10})
DELAYED = {"processes.delayed": 40}
STEPS = 60
EVEN = straggler.EVEN
NAN = float("nan")
OF_BUSY_HOST = {"pressure.cpu": 50}


Story = Callable[[], Subject]


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
     lambda: busy_with(*[K(ADD, 50, ("aten::linear", *kernels.CAST)), K(BF16, 190)] * 4)),
    ("misaligned-dims", "convolutions",
     lambda: busy_with(K(kernels.ALIGN2, 600, ("aten::convolution_backward",)), K(BF16, 390))),
    ("conv-bias-before-bn", "no normalisation",
     lambda: busy_with(K(BF16, 400), kernels.BIASED, K(BF16, 540, ("aten::relu",)))),
    ("cudnn-benchmark", "few kernels", lambda: kernels.searching(20, 20, kernels=11)),
    ("cudnn-benchmark-off", "one step of few", lambda: kernels.judged_convolutions(0.2, steps=1)),
    ("optimizer-single-tensor", "kernels of many tensors",
     lambda: loops.stepping_on_gpu(200, loops.FUSED)),
    ("per-parameter-loop", "waits",
     lambda: loops.averaging_on_gpu(80, "aten::linalg_vector_norm", "aten::item")),
    ("zero-grad-memset", "other zeros", lambda: loops.zeroing(100, mark="prepare")),
    # Operators on the CPU
    ("loop-of-indexing", "pieces far apart", lambda: loops.matching(300, between=1)),
    ("unfused-attention", "fused", lambda: operator_work.attending(3_000, fused=True)),
    ("layout-copies", "casts", lambda: operator_work.forward((10, 2.5, operator_work.CASTS))),
    ("slow-operator", "little of a trace",
     lambda: trace_alone.plain(("aten::rand", "aten::uniform_", 2.4))),
    ("slow-operator", "a range of the script that passes for an operator",
     lambda: trace_alone.plain(("load the batch", "aten::uniform_", 6))),
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
        "slow-operator", "float64", "repeated-backward", "dropped-results",
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
    ("sorting", "unknown operators", lambda: costly_operators.sorting(500),
     "does not show which operators"),
    ("sorting", "unknown ones with others", lambda: costly_operators.of_known_and_unknown(60, 60),
     "does not show which operators"),
    ("cudnn-benchmark", "no steps", lambda: without(kernels.searching(20, 20), "Step#"),
     "its warm-up is not known"),
    ("cudnn-benchmark-off", "one step", lambda: kernels.judged_convolutions(0.4, steps=1),
     "a single step does not show whether sizes stay the same"),
    ("optimizer-single-tensor", "no note", lambda: WINDOWLESS,
     "how the optimizer was created was not recorded"),
    # Operators on the CPU
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
