"""Events as cells: kinds by name, labels that fit, and each view worked out once."""

from dataclasses import replace

import pytest

from perftui.analysis.timeline.track import PHASES, STEPS, THREAD, TimelineTrack, TrackIndex
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui_tui.look.rows import plain as text_of
from perftui_tui.screens.timeline import track_cells as module
from perftui_tui.screens.timeline.navigation import Viewport
from perftui_tui.screens.timeline.track_cells import (
    DrawnTracks,
    EventKind,
    Glyphs,
    KindsOfTrace,
    kind_of,
    merged,
    style_of,
    track_cells,
)
from tests.verify.benchmarks.bench_ten_million import trace_of

COLUMNS = 40


def test_a_view_that_stays_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(6000)
    kinds, glyphs = KindsOfTrace(trace), Glyphs()
    track = timeline_tracks(trace)[0]
    calls = []

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return track_cells(*arguments)  # the same, handed through

    monkeypatch.setattr(module, "track_cells", counted)
    drawn = DrawnTracks(trace, kinds, glyphs)
    end = int(trace.start.max())
    whole, half = Viewport(0, end, 0, end), Viewport(0, end // 2, 0, end)

    def expected(view: Viewport, columns: int = COLUMNS) -> object:
        return track_cells(trace, kinds, track, view, columns, glyphs)

    first = drawn.cells(track, whole, COLUMNS)
    assert first == expected(whole)
    first[0] = ("x", "selected")
    assert drawn.cells(track, whole, COLUMNS) == expected(whole), "it was drawn over"
    assert len(calls) == 1
    assert drawn.cells(track, half, COLUMNS) == expected(half)
    assert drawn.cells(track, whole, 20) == expected(whole, 20)
    assert len(calls) == 3


@pytest.mark.parametrize(
    ("category", "name", "kind"),
    [
        ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", EventKind.COMMUNICATION),
        ("kernel", "sm90_xmma_gemm_bf16bf16_tn_n_tilesize128x128x64", EventKind.GEMM),
        ("kernel", "nvjet_tst_128x64_64x5_2x1_v_bz_TNT", EventKind.GEMM),
        ("kernel", "ampere_fp16_s16816gemm_fp16_128x64_ldg8", EventKind.GEMM),
        ("kernel", "void cudnn::cnn::wgrad_alg0_engine<float>", EventKind.GEMM),
        ("kernel", "volta_scudnn_128x64_relu_small_nn_v1", EventKind.GEMM),
        ("kernel", "void cudnn::bn_bw_1C11_singleread<float>", EventKind.NORM),
        (
            "kernel",
            "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>",
            EventKind.ATTENTION,
        ),
        ("kernel", "multi_tensor_apply_kernel<TensorListMetadata<4>>", EventKind.OPTIMIZER),
        ("kernel", "vectorized_layer_norm_kernel<float>", EventKind.NORM),
        ("kernel", "void at::native::vectorized_elementwise_kernel<4>", EventKind.ELEMENTWISE),
        ("kernel", "triton_poi_fused_add_0", EventKind.ELEMENTWISE),
        ("kernel", "my_kernel", EventKind.KERNEL),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", EventKind.COPY),
        ("cuda_runtime", "cudaLaunchKernel", EventKind.RUNTIME),
        ("cuda_runtime", "cudaStreamSynchronize", EventKind.WAIT),
        ("hip_runtime", "hipDeviceSynchronize", EventKind.WAIT),
        ("cpu_op", "aten::conv2d", EventKind.OPERATOR),
        ("python_function", "train.py(3): main", EventKind.PYTHON),
        ("user_annotation", "ProfilerStep#3", EventKind.RANGE),
        ("something new", "x", EventKind.RANGE),
    ],
)
def test_kinds_of_real_names(category, name, kind):
    assert kind_of(category, name) is kind


def test_each_kind_has_its_own_letter_and_word():
    assert len({kind.letter.upper() for kind in EventKind}) == len(EventKind)
    assert len({kind.word for kind in EventKind}) == len(EventKind)


MS = 1_000_000


@pytest.fixture
def steps(make_trace):
    """Four steps without a break, the last one shorter."""
    return make_trace(
        *((f"step {9 + at}", 0, at * 10 * MS, 10 * MS) for at in range(3)),
        ("step 12", 0, 30 * MS, 5 * MS),
    )


def track_of(trace, kind):
    rows = (trace.track == 0).nonzero()[0].astype("int32")
    return TimelineTrack(kind, kind, 0, 0, TrackIndex(rows, trace.start[rows], trace.ends_of(rows)))


def drawn(trace, kind, columns, glyphs):
    view = Viewport.whole(0, int(trace.end.max()))
    cells = track_cells(trace, KindsOfTrace(trace), track_of(trace, kind), view, columns, glyphs)
    return text_of(merged(cells))


@pytest.mark.parametrize(
    ("room", "words"),
    [(20, "step 10 10.0 ms"), (15, "step 10 10.0 ms"), (14, "10 10.0 ms"), (9, "10"), (2, "10"),
     (1, "")],
)  # fmt: skip
def test_a_step_never_shows_a_cut_number(steps, room, words):
    event_style = style_of(track_of(steps, STEPS), steps, KindsOfTrace(steps), None)
    assert event_style.label(1, room) == words


def test_steps_are_told_apart_while_each_has_two_columns(steps):
    assert drawn(steps, STEPS, 56, Glyphs()) == (
        "▏step 9 10.0 ms█▏step 10 10.0 ms▏step 11 10.0 ms▏12█████"
    )
    assert drawn(steps, STEPS, 14, Glyphs()) == "▏9██▏10█▏11█▏█"
    assert drawn(steps, STEPS, 7, Glyphs()) == "███████"
    assert drawn(steps, STEPS, 14, Glyphs(ascii_only=True)) == "[9OO[10O[11O[O"


@pytest.fixture
def phases(make_trace):
    return make_trace(
        ("input_wait", 0, 0, 10 * MS),
        ("forward", 0, 10 * MS, 20 * MS),
        ("backward", 0, 35 * MS, 5 * MS),
    )


def test_phases_are_called_as_everywhere_and_told_apart_without_colours(phases):
    assert drawn(phases, PHASES, 40, Glyphs()) == "▏wait█████▏forward████████████     ▏bwd█"
    assert drawn(phases, PHASES, 8, Glyphs(ascii_only=True)) == "DDFFFF B"
    agent = replace(phases, names=tuple(f"perftui::{name}" for name in phases.names))
    assert drawn(agent, PHASES, 40, Glyphs()) == drawn(phases, PHASES, 40, Glyphs())
    expected = "[wait DDDD[forward FFFFFFFFFFF     [bwd "
    for glyphs in (Glyphs(colours=False), Glyphs(ascii_only=True)):
        assert drawn(phases, PHASES, 40, glyphs) == expected
    assert drawn(phases, PHASES, 8, Glyphs(colours=False)) == "DDFFFF B"
    assert drawn(phases, THREAD, 8, Glyphs(colours=False)) == "██████ █"
