import pytest

from perftui_tui.screens.timeline.track_cells import EventKind, kind_of


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
