"""What each rule says: its sentence, what that costs, and where to look."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from perftui.analysis.model import GapCause
from perftui.analysis.steps import COMPUTE, EXPOSED_COPIES
from perftui.diagnosis.model import Severity
from tests.core.diagnosis import test_costly_operators as costly_operators
from tests.core.diagnosis import test_cpu as cpu
from tests.core.diagnosis import test_debugging as debugging
from tests.core.diagnosis import test_gpu_idle as gpu_idle
from tests.core.diagnosis import test_growth as growth
from tests.core.diagnosis import test_kernels as kernels
from tests.core.diagnosis import test_loops as loops
from tests.core.diagnosis import test_machine as machine
from tests.core.diagnosis import test_memory as memory
from tests.core.diagnosis import test_needless_work as needless_work
from tests.core.diagnosis import test_operator_work as operator_work
from tests.core.diagnosis import test_passes as passes
from tests.core.diagnosis import test_recording as recording
from tests.core.diagnosis import test_slow_steps as slow_steps
from tests.core.diagnosis import test_trace_alone as trace_alone
from tests.core.diagnosis.runs import MS, Seen, make_run, on_gpu, run_of, step_table
from tests.core.diagnosis.stories import (
    ADD,
    BF16,
    SGEMM,
    K,
    Subject,
    busy_with,
    finding_of,
    launching,
    without,
)
from tests.traces.builder import ms, us

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL


IN_MODEL = {"parts": ("forward",), "source": "/p/model.py:12"}
STEADY = step_table(100, {"forward": 100})


class Says(NamedTuple):
    """A rule, what it judges, its sentence, and more that is known of the finding."""

    rule: str
    story: Callable[[], Subject]
    sentence: str
    known: dict[str, Any]


def says(rule: str, story: Callable[[], Subject], *sentence: str, **known: Any) -> Says:
    """``source``, ``operator`` and ``line`` are those of its place."""
    return Says(rule, story, "".join(sentence), known)


def about(cost_ns: float) -> Any:
    return pytest.approx(cost_ns, rel=0.01)


FINDINGS = (
    # The GPU idles
    says("debug-flags", lambda: debugging.launched(blocking=True),
        "Every launch waits until its kernel is over, as CUDA_LAUNCH_BLOCKING makes it, which "
        "takes 500 µs of each 1.0 ms step (50 %)."),
    says("allocator-churn", lambda: debugging.allocating(99),
        "Allocating memory in the driver takes 100 µs of each 1.0 ms step (10 %): 4 calls to "
        "allocate, 4 to free.", severity=WARNING),
    says("pageable-copies", lambda: gpu_idle.copied("HtoD", 200, 1 << 20),
        "Batches are copied to the GPU from pageable memory at train.py:12: 1.0 MiB a step, for "
        "which the step waits 158 µs of each 1.0 ms step (16 %).",
        # Pinned, the copy itself takes 42 us.
        cost_ns=200_000 - (1 << 20) // 25, severity=WARNING, source="train.py:12",
        parts=(EXPOSED_COPIES,)),
    says("copies-exposed", lambda: gpu_idle.copied("DtoH", 50, 1 << 20),
        "The GPU copies for 50 µs of each 1.0 ms step (5.0 %) without computing, mostly 1.0 "
        "MiB to the host at train.py:12."),
    says("created-on-cpu", lambda: gpu_idle.made("aten::full", "aten::triu"),
        "1 tensor of each step is created on the CPU and then copied to the GPU (aten::full at "
        "train.py:12): this takes 200 µs of each 1.0 ms step (20 %).",
        operator="aten::full", source="train.py:12"),
    says("launch-bound", lambda: launching(every=16),
        "The GPU idles 800 µs of each 1.6 ms step (50 %) between launches: 100 kernels a step, "
        "half of them no longer than 8.0 µs.", cost_ns=800_000, severity=CRITICAL),
    says("launch-bound", lambda: without(launching(every=16), "ProfilerStep"),
        "The GPU idles 3.2 ms of the recorded 6.4 ms (50 %) between launches: 400 kernels in all, "
        "half of them no longer than 8.0 µs."),
    says("initialisation", lambda: recording.first_use(4000),
        "The GPU idles 4.0 ms of each 10 ms step (40 %) while the driver and libraries load code "
        "and initialize: the recording shows first calls, not steady steps.",
        cost_ns=ms(4), severity=CRITICAL, operator="cudaLaunchKernel"),
    says("initialisation", lambda: recording.starting(100, 4),
        "The GPU idles 100 ms of the recorded 151 ms (66 %) while the driver and libraries load "
        "code and initialize: the recording is mostly first calls, and only 27 % of it is steady "
        "steps.", severity=CRITICAL, steps=0),
    says("initialisation", lambda: recording.convolving(ms(20)),
        "First calls of operators take 20 ms of the recorded 40 ms (50 %), far longer than later "
        "ones, mainly aten::cudnn_convolution: the recording shows first calls, not steady steps.",
        cost_ns=about(ms(20)), severity=CRITICAL, operator="aten::cudnn_convolution"),
    # Kernels
    says("matmul-fp32", lambda: busy_with(K(SGEMM, 700, ("aten::addmm",)), K(ADD, 290)),
        "The GPU multiplies float32 matrices for 700 µs of each 1.0 ms step (70 %) without its "
        "tensor cores: TF32, 7 times as fast here, is off.",
        cost_ns=about(us(700 * (1 - 67 / 494.7))), severity=CRITICAL, operator="aten::addmm"),
    says("tensor-cores-unused", lambda: kernels.of_float32(kernels.MATMUL_NOTE),
        "The GPU spends 900 µs of each 1.0 ms step (90 %) on matrix products in float32, where 16 "
        "bits would do."),
    says("tensor-cores-unused", lambda: busy_with(
            K(kernels.TF32, 400), K(kernels.ATTENTION, 400), K(BF16, 150)),
        "The GPU spends 800 µs of each 1.0 ms step (80 %) on matrix products and attention in "
        "float32 and TF32, where 16 bits would do.", cost_ns=us(400 * 0.5 + 400 * 0.75)),
    says("layout-conversion", lambda: busy_with(
            K(kernels.TO_NHWC, 100, kernels.CONV),
            K(kernels.NORM, 300, ("aten::native_batch_norm",)), K(BF16, 590)),
        "The GPU spends 100 µs of each 1.0 ms step (10 %) converting the tensors of convolutions "
        "from channels first to channels last and back, and 300 µs in normalisation, which is "
        "slower with channels first.", cost_ns=us(250)),
    says("memory-bound-elementwise", lambda: busy_with(
            *[K(ADD, 50, ("aten::add",))] * 12, K(BF16, 390)),
        "The GPU spends 600 µs of each 1.0 ms step (60 %) in 12 kernels for elementwise work, "
        "normalisation and reductions, each of which moves whole tensors through memory.",
        cost_ns=us(600 - 3 * 50), operator="aten::add"),
    says("compute-bound", lambda: busy_with(*[K(ADD, 50, ("aten::add",))] * 12, K(BF16, 390)),
        "The GPU is the limit: it computes 990 µs of each 1.0 ms step (99 %). Of its kernels' "
        "time: elementwise 61 %, matrix products 39 %. How well they use it is not known yet: the "
        "sizes of tensors were not recorded (--shapes records them).",
        cost_ns=0, severity=INFO),
    says("unfused-attention", kernels.written_out,
        "Between the two matrix products of attention 300 µs of each 1.0 ms step (30 %) goes into "
        "softmax, masks and scaling, each of which moves the scores of all pairs of positions "
        "through memory.", cost_ns=about(us(300)), severity=CRITICAL),
    says("attention-mask", kernels.slow_path,
        "scaled_dot_product_attention falls back to its slow path, with softmax and mask as "
        "separate kernels: they take 200 µs of each 1.0 ms step (20 %)."),
    says("attention-mask", lambda: kernels.attending(kernels.ONE_MASK),
        "Attention takes 400 µs of each 1.0 ms step (40 %) and reads a mask of 512 x 512 from "
        "memory, which rules out the fastest kernels.",
        # A causal kernel leaves out one half of the pairs.
        cost_ns=us(200), operator=kernels.EFFICIENT[0]),
    says("misaligned-dims", lambda: busy_with(K(kernels.ALIGN2, 600, ("aten::mm",)), K(BF16, 390)),
        "16-bit matrix products take 600 µs of each 1.0 ms step (60 %) in kernels for sizes that "
        "are not multiples of eight.", cost_ns=us(200)),
    says("backward-recompute", kernels.recomputing,
        "Activation checkpointing recomputes the forward pass during backward, for 200 µs of each "
        "1.0 ms step (20 %).", cost_ns=us(200), severity=INFO),
    says("conv-bias-before-bn", lambda: busy_with(
            K(BF16, 400), kernels.BIASED, K(kernels.NORM, 100, ("aten::batch_norm",)),
            K(BF16, 440)),
        "Convolutions add a bias that the following batch normalisation removes again, for 50 µs "
        "of each 1.0 ms step (5.0 %).", cost_ns=us(50)),
    says("cudnn-benchmark-off", lambda: kernels.judged_convolutions(0.4),
        "Convolutions take 40 % of the GPU's time with the same kernels in each step, and "
        "torch.backends.cudnn.benchmark is off.", cost_ns=0, severity=INFO),
    says("zero-grad-memset", lambda: loops.zeroing(49),
        "zero_grad fills gradients with zeros for 49 µs of each 1.0 ms step (4.9 %).",
        cost_ns=us(49), operator="aten::zero_"),
    says("optimizer-single-tensor", kernels.facts_of,
        "The optimizer takes 30 ms of each 100 ms step (30 %): AdamW at train.py:5 updates "
        "120 tensors one at a time.",
        cost_ns=15 * MS, severity=CRITICAL, fixes=("optimizer-fused", "optimizer-foreach")),
    says("optimizer-single-tensor", lambda: loops.stepping(100),
        "The optimizer takes 4.0 ms of each 10 ms step (40 %): Lion at train.py:5 updates 100 "
        "tensors one at a time.", cost_ns=about(4 * MS), fixes=(), source="/p/lion.py:30"),
    says("optimizer-single-tensor", lambda: loops.stepping_on_gpu(100),
        # From the first of its kernels to the end of the last: 99 times 5 us, and one kernel.
        "The optimizer occupies the GPU for 496 µs of each 800 µs step (62 %): AdamW launches 100 "
        "kernels, one parameter at a time.",
        cost_ns=round(us(396) * 0.9) + us(50), severity=CRITICAL, operator="aten::lerp_"),
    says("per-parameter-loop", lambda: loops.averaging(60),
        "A loop at train.py:7 calls 4 small operators (aten::mul, aten::add, aten::copy_) for "
        "each of 60 parameters: this takes 9.6 ms of each 20 ms step (49 %).",
        cost_ns=about(9.6 * MS), severity=CRITICAL, parts=("other",), source="/p/train.py:7"),
    says("loop-of-indexing", lambda: loops.recurrence(100),
        "A loop at train.py:12 calls 5 small operators (aten::select, aten::linear, "
        "aten::sigmoid, ...) 100 times for a slice of a tensor each: this takes 8.0 ms of each "
        "8.0 ms step (100 %).", cost_ns=about(8 * MS), parts=("forward", "backward")),
    says("loop-of-indexing", lambda: loops.matching(300),
        "A loop at boxes.py:9 calls small operators (aten::maximum, aten::select) for 300 slices "
        "of tensors, one by one: this takes 8.8 ms of each 23 ms step (38 %)."),
    says("python-bound", lambda: loops.with_python(100),
        "Python in the model and its optimizer takes 1.0 ms of each 2.0 ms step (50 %), most of "
        "it in forward at model.py:3: a step calls 20 operators.",
        cost_ns=MS, parts=("python in forward",)),
    says("small-batch", lambda: memory.judged(400, 400),
        "Kernels that leave at least half of the GPU empty take 50 % of its time, and 20 % of "
        "its memory is in use: a larger batch takes less time per sample, but changes the "
        "training.",
        # Three quarters of the card are empty for 400 us, and it is busy four fifths of the step.
        cost_ns=us(300), severity=WARNING, operator="aten::mm"),
    says("fragmentation", lambda: memory.holding(40, 20),
        "PyTorch reserves 40.0 GiB of GPU memory, though tensors never took more than 20.0 GiB: "
        "the rest is in pieces too small to use.", cost_ns=0, severity=INFO),
    says("memory-headroom", lambda: memory.with_room(50, 69),
        "GPU 0 is busy 69 % of the time and has used 50 % of its memory: a larger batch would fit.",
        cost_ns=0, severity=INFO),
    # Operators on the CPU
    says("dtype-churn", lambda: operator_work.forward((10, 2.5, operator_work.CASTS)),
        "Casts to another data type take 25 ms of each 100 ms step (25 %), 10 of them in a "
        "step at model.py:12.", cost_ns=about(25 * MS), **IN_MODEL),
    says("layout-copies", lambda: operator_work.forward((10, 2.5, operator_work.COPIES)),
        "Copies of tensors into another memory layout take 25 ms of each 100 ms step (25 %), "
        "10 of them in a step at model.py:12.", cost_ns=about(25 * MS), **IN_MODEL),
    says("memory-bound-elementwise", lambda: operator_work.forward((20, 2, ("aten::mul",))),
        "Element-wise operators called one by one take 40 ms of each 100 ms step (40 %), 20 "
        "of them outside backward at model.py:12: each makes its own pass through memory.",
        cost_ns=about(20 * MS), **IN_MODEL),
    says("memory-bound-elementwise", lambda: operator_work.forward((4, 10, ("aten::mul",))),
        "Element-wise operators on large tensors take 40 ms of each 100 ms step (40 %) at "
        "model.py:12: each makes its own pass through memory.",
        cost_ns=about(20 * MS), **IN_MODEL),
    says("slow-operator", lambda: operator_work.forward((2, 20, operator_work.SORT)),
        "aten::sort at model.py:12 takes 40 ms of each 100 ms step (40 %).",
        cost_ns=about(20 * MS), **IN_MODEL),
    says("slow-operator", lambda: trace_alone.plain(("aten::rand", "aten::uniform_", 2.5)),
        "aten::rand takes 25 ms of the recorded 100 ms (25 %).", cost_ns=about(ms(12.5))),
    says("unfused-attention", lambda: operator_work.attending(3_000),
        "Between the two matrix products of attention at model.py:12 1.5 ms of each 12 ms step "
        "(12 %) goes into softmax, masks and scaling, each of which moves the scores of all pairs "
        "of positions through memory.", cost_ns=about(1.5 * MS)),
    says("attention-mask", lambda: operator_work.attending(3_000, by_torch=True),
        "scaled_dot_product_attention falls back to its slow path, with softmax and mask as "
        "separate operators: they take 1.5 ms of each 12 ms step (12 %).",
        cost_ns=about(1.5 * MS), severity=INFO),
    says("backward-recompute", lambda: operator_work.backward(6_000),
        "Activation checkpointing recomputes the forward pass during backward, for 6.0 ms of each "
        "30 ms step (20 %) at train.py:20.",
        cost_ns=6 * MS, would_raise_confidence="whether memory would be short without it"),
    says("unused-gradients", lambda: operator_work.backward(
            note=operator_work.floats(unused=40, unused_elements=3_000_000)),
        "Gradients of 40 of 60 parameters are computed but never used, because no optimizer "
        "holds them: at least 5.0 ms of each 30 ms step (17 %) at train.py:20.",
        cost_ns=5 * MS, severity=WARNING),
    says("unused-gradients", passes.gan,
        "Backward continues into a model that another optimizer trains, for 6.0 ms of each 23 ms "
        "step (26 %) at train.py:10, and those gradients are thrown away.",
        cost_ns=about(6 * MS), severity=CRITICAL),
    says("dense-gradients", operator_work.dense,
        "Embedding tables of 5.0 million numbers at train.py:25 get dense gradients, and the "
        "optimizer updates every row: 10 ms of each 40 ms step (26 %).",
        cost_ns=about((2 + 10 * 5 / 6) * MS)),
    says("repeated-forward", lambda: operator_work.passes(5),
        "The model runs another forward pass without a backward pass in the same step, for 5.0 ms "
        "of each 20 ms step (25 %) at train.py:14.", cost_ns=5 * MS),
    says("float64", lambda: operator_work.forward(note=operator_work.floats(dtype="float64")),
        "Operators compute in float64 for 100 ms of each 100 ms step (100 %) at model.py:12: "
        "float32 takes half of that or less.", cost_ns=50 * MS),
    says("filled-gradients", lambda: needless_work.pieces(3),
        "Backward fills a whole tensor with zeros for each of 10 pieces of 1 tensor at "
        "model.py:12 and adds them up, which takes 30 ms of each 100 ms step (30 %).",
        cost_ns=about(30 * MS), source="/p/model.py:12"),
    says("expanded-operand", lambda: needless_work.expanded(5),
        "An operand is expanded and copied before 1 matrix product at model.py:12: the "
        "copies, and the sums of their gradients, take 10 ms of each 100 ms step (10 %), and the "
        "products 20 ms.", cost_ns=about(10 * MS), source="/p/model.py:12"),
    says("dropped-results", costly_operators.last_position,
        "A matrix product at train.py:16 is computed in full, but only part of its result is "
        "used: 32 ms of each 100 ms step (32 %), backward pass included.",
        cost_ns=about(16 * MS), severity=WARNING),
    says("many-backward-passes", lambda: passes.passes(20),
        "Each step runs 20 backward passes at train.py:10: Python and short operator calls take "
        "3.8 ms of each 4.0 ms step (95 %) more than a single pass would.",
        cost_ns=about(3.8 * MS), severity=CRITICAL),
    says("repeated-backward", passes.losses,
        "2 backward passes of each step run through the same layers, for 8.0 ms of each 34 ms "
        "step (24 %) more than one would at train.py:10.", cost_ns=about(8 * MS)),
    says("evaluation", lambda: passes.passes_alone_of(10),
        "Each step calls the model 10 times more than it trains it: those forward passes take "
        "20 ms of each 35 ms step (57 %).", cost_ns=20 * MS, severity=CRITICAL),
    says("onednn-off", lambda: trace_alone.plain((*trace_alone.SLOW, 2.5)),
        "Convolutions take 25 ms of the recorded 100 ms (25 %), none of them in oneDNN: it is "
        "disabled, this build of torch lacks it, or the data is float64.",
        cost_ns=about(ms(12.5))),
    # Cores
    says("cpu-threads", lambda: cpu.facts_of(cpu.settings(threads=1)),
        "Operators run on 1 thread while 7.0 of 8 cores idle: more threads could save up to "
        "5.6 ms of each 10 ms step (56 %).",
        # 8 ms could be split among eight cores, at 80 % of what that saves.
        cost_ns=round(0.8 * 8 * MS * 7 / 8), severity=CRITICAL, source="/p/train.py:4"),
    says("cpu-threads", lambda: cpu.facts_of(cpu.settings(threads=32), busy=8, own=8),
        "Operators run on 32 threads, on 8 cores: they wait for each other, for up to 6.0 ms of "
        "each 10 ms step (60 %).", cost_ns=6 * MS),
    says("cpu-affinity", lambda: cpu.facts_of(cpu.settings(threads=2, affinity=2), busy=2, own=2),
        "The training may run on 2 of 8 cores and uses 2.0 of them, while 6.0 others idle: with "
        "those it could save up to 4.8 ms of each 10 ms step (48 %).",
        cost_ns=round(0.8 * 8 * MS * 6 / 8), source="/p/train.py:2"),
    says("onednn-off", lambda: cpu.convolving(6),
        "oneDNN is disabled (torch.backends.mkldnn.enabled), and convolutions and recurrent "
        "layers take 6.0 ms of each 10 ms step (60 %).", cost_ns=3 * MS, source="/p/train.py:3"),
    says("busy-host", lambda: cpu.neighbours(profile=cpu.NAMED),
        "Other programs take 5.0 of 8 cores (cc1): the training waits for a core 4.0 ms of each "
        "10 ms step (40 %), so all times are up to 67 % too long.", severity=WARNING),
    says("own-process", lambda: cpu.beside(**{"processes.delayed": 40}),
        "Other processes that the script started take 2.0 of 8 cores: the training waits for a "
        "core 4.0 ms of each 10 ms step (40 %).", cost_ns=4 * MS, severity=CRITICAL),
    says("own-process", lambda: cpu.fed(3),
        "The workers of the data loader take 3.0 of 8 cores: the training waits for a core 4.0 ms "
        "of each 10 ms step (40 %).", cost_ns=4 * MS, severity=INFO),
    says("gil-contention", lambda: machine.facts_of(stacks=machine.held(0.9, idle=0.3)),
        "Another thread at data.py:7 in poll holds the GIL 90 % of the time: the training thread "
        "waits for it for up to 3.0 ms of each 10 ms step (30 %).",
        cost_ns=3 * MS, severity=CRITICAL, source="/p/data.py:7"),
    # The machine
    says("thermal-or-power-cap", lambda: machine.hot(1500.0),
        "Heat limits the clock of GPU 0 in 100 % of the samples, to 75 % of its maximum on "
        "average.",
        # A quarter of the half of each step in which the GPU computes.
        cost_ns=125_000, severity=WARNING),
    says("shared-gpu", lambda: machine.card(process_memory=5 * machine.GIB, utilization=50.0),
        "Other processes hold 15.0 GiB of GPU 0 (14 % of its memory).", severity=INFO),
    says("wrong-build", lambda: machine.facts_of(
            machine.settings(build=machine.CPU_ONLY, parameters=machine.ON_CPU), gpus=("H100",)),
        "The model computes on the CPU, 6.0 ms of each 10 ms step (60 %), while the machine has "
        "H100: torch 2.13.0+cpu is built without CUDA.",
        cost_ns=round(5.4 * MS), severity=CRITICAL),
    says("gpus-unused", lambda: machine.on_cards(machine.settings(**machine.A_GPU), 90, 0, 0, 30),
        "The training uses 1 of the 4 GPUs that it sees, and nothing else runs on 2 others.",
        severity=INFO),
    says("slow-start", machine.starting_late,
        "The first step began 40 s after the start, 99 % of the run so far, 100 % of its samples "
        "at train.py:3.", severity=INFO),
    says("swapping", machine.swapping,
        "The machine is short of memory and reads 3.8 MiB/s back from swap: tasks wait for memory "
        "2.5 ms of each 10 ms step (25 %).", cost_ns=round(2.5 * MS)),
    # Steps of a run
    says("largest-part", lambda: make_run(phases={"other": 60, "forward": 40}),
        "The script's own code takes 60 ms of each 100 ms step (60 %), outside forward, backward "
        "and optimizer.", cost_ns=60 * MS, severity=CRITICAL, parts=("other",)),
    says("memory-growth", lambda: run_of(STEADY, telemetry=growth.memory(STEADY, 400, 700)),
        "Memory of the training grows from 415 MiB to 690 MiB in 100 steps, 2.7 MiB per step.",
        cost_ns=0, severity=WARNING),
    says("no-progress", lambda: growth.waiting(45, Seen(3000, 900, 12), growth.HUNG),
        "No step has ended for 45 s, since step 39; a step usually takes 100 ms. Its main thread "
        "was last seen at train.py:31 in reduce.",
        cost_ns=0, severity=WARNING, source="/p/train.py:31"),
    says("slow-steps", lambda: slow_steps.saving(1000),
        "One step in 25 takes 1.0 s instead of 20 ms, 40 ms of each 60 ms step (67 %) on "
        "average: they write checkpoints at train.py:20.",
        cost_ns=40 * MS, severity=CRITICAL, source="/p/train.py:20"),
    says("checkpoint", slow_steps.saving_in_each,
        "Writing checkpoints takes 40 ms of each 100 ms step (40 %) at train.py:30."),
    says("checkpoint", lambda: slow_steps.saving_calls(500),
        "Writing checkpoints takes 20 ms of each 40 ms step (50 %): torch.save at train.py:30 "
        "every 25 steps, 500 ms each.", cost_ns=20 * MS, source="/p/train.py:30"),
    says("evaluation", slow_steps.evaluating_within,
        "Evaluation takes 20 ms of each 40 ms step (50 %): 4 steps take longer in forward passes "
        "alone."),
    says("evaluation", lambda: slow_steps.evaluating(50),
        "Evaluation takes 50 % of the run: 200 steps without training (train.py:51), 20 ms for "
        "each training step.",
        cost_ns=20 * MS, step_ns=40 * MS, severity=CRITICAL, source="/p/train.py:51"),
    says("recompiles", lambda: slow_steps.compiling(0.5),
        "torch.compile takes 50 ms of each 100 ms step (50 %) after the warm-up: it recompiles "
        "for train.py:17 in 60 of 60 steps, according to stack samples.",
        cost_ns=50 * MS, source="/p/train.py:17"),
    says("gc-pauses", lambda: slow_steps.collecting(30),
        "Python's garbage collector takes 30 ms of each 100 ms step (30 %): 60 full collections "
        "of 30 ms in nearly every step, mostly begun at train.py:21.",
        cost_ns=30 * MS, source="/p/train.py:21"),
)  # fmt: skip


@pytest.mark.parametrize("said", FINDINGS, ids=[said.rule for said in FINDINGS])
def test_a_finding_has_its_sentence_its_cost_and_its_place(said: Says) -> None:
    finding = finding_of(said.story(), said.rule)
    assert finding.sentence == said.sentence
    found = {
        name: getattr(finding.place if name in ("source", "operator", "line") else finding, name)
        for name in said.known
    }
    assert found == said.known


ON_ANY_DEVICE = (
    ("repeated-forward", lambda: operator_work.passes(5), 0.99),
    ("unused-gradients", passes.gan, 0.99),
    ("unused-gradients", lambda: operator_work.backward(
        note=operator_work.floats(unused=40, unused_elements=3_000_000)), 0.99),
    ("many-backward-passes", lambda: passes.passes(20), 0.1),
    ("dropped-results", costly_operators.last_position, 0.99),
    ("repeated-backward", passes.losses, 0.99),
    ("dense-gradients", operator_work.dense, 0.99),
    ("loop-of-indexing", lambda: loops.recurrence(100), 0.1),
    ("slow-operator", lambda: operator_work.forward((2, 20, ("aten::linalg_svd",))), 0.99),
    ("layout-copies", lambda: operator_work.forward((10, 2.5, operator_work.COPIES)), 0.99),
    ("per-parameter-loop", lambda: loops.averaging(60), 0.1),
    ("backward-recompute", lambda: operator_work.backward(6_000), 0.99),
    ("unfused-attention", lambda: operator_work.attending(3_000), 0.99),
    ("attention-mask", lambda: operator_work.attending(3_000, by_torch=True), 0.99),
    ("dtype-churn", lambda: operator_work.forward((10, 2.5, operator_work.CASTS)), 0.99),
)  # fmt: skip
"""Rules about operators, a story, and the share of its operators in which a GPU computes."""


@pytest.mark.parametrize(("rule", "story", "busy"), ON_ANY_DEVICE)
def test_what_a_rule_says_of_operators_it_says_where_a_gpu_computes(
    rule: str, story: Callable[[], Subject], busy: float
) -> None:
    on_cpu = finding_of(story(), rule)
    with on_gpu(busy):
        finding = finding_of(story(), rule)
    assert finding.cost_ns == pytest.approx(on_cpu.cost_ns, rel=0.12)
    assert (COMPUTE if busy > 0.5 else GapCause.LAUNCH.value) in finding.parts
