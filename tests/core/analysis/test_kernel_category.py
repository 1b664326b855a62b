"""What kind of work a kernel does and in which precision, by its name; and what cards can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.kernels.category import (
    Category,
    Precision,
    TensorCores,
    category_of,
    precision_of,
    tensor_cores,
)
from perftui.analysis.kernels.limits import card_of

NAMES = [
    ("volta_sgemm_64x64_nt", Category.GEMM, Precision.FLOAT32),
    ("ampere_sgemm_128x64_tn", Category.GEMM, Precision.FLOAT32),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_ffma_aligna4_alignc4_execute_kernel"
     "__5x_cublas", Category.GEMM, Precision.FLOAT32),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(cutlass_80_simt_sgemm_128x"
     "256_8x4_nt_align1::Params)", Category.GEMM, Precision.FLOAT32),
    ("sm90_xmma_gemm_f32f32_tf32f32_f32_nt_n_tilesize128x256x32_warpgroupsize2x1x1_execute",
     Category.GEMM, Precision.TF32),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x128_32x3_nt_align1>()", Category.GEMM,
     Precision.TF32),
    ("turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn", Category.GEMM, Precision.HALF),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", Category.GEMM, Precision.HALF),
    ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", Category.GEMM, Precision.HALF),
    ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", Category.GEMM, Precision.HALF),
    ("nvjet_sm100_qqtst_128x256_128x6_2x1_2cta_h_bz_TNT", Category.GEMM, Precision.HALF),
    ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, "
     "cutlass::bfloat16_t> >()", Category.GEMM, Precision.HALF),
    ("cutlass_80_tensorop_d884gemm_64x64_16x4_nt_align1", Category.GEMM, Precision.FLOAT64),
    ("Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2x1_SN_1LDSB0", Category.GEMM, Precision.FLOAT32),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1", Category.GEMM,
     Precision.HALF),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float, float>()", Category.GEMM,
     Precision.UNKNOWN),
    ("triton_tem_fused_mm_3", Category.GEMM, Precision.UNKNOWN),
    ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>()",
     Category.CONVOLUTION, Precision.FLOAT32),
    ("cudnn_volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", Category.CONVOLUTION,
     Precision.FLOAT32),
    ("sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16",
     Category.CONVOLUTION, Precision.TF32),
    ("void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_256x64_32x4_"
     "nhwc_align8>()", Category.CONVOLUTION, Precision.HALF),
    ("igemm_fwd_gtcx_nhwc_fp32_bx0_ex0_bt128x128x16", Category.CONVOLUTION, Precision.FLOAT32),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)",
     Category.ATTENTION, Precision.FLOAT32),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>()",
     Category.ATTENTION, Precision.HALF),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64",
     Category.ATTENTION, Precision.HALF),
    ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<>()", Category.ATTENTION, None),
    ("void at::native::batch_norm_collect_statistics_kernel<at::native::Var>()", Category.NORM,
     None),
    ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>()", Category.NORM,
     None),
    ("void vllm::rms_norm_kernel<c10::BFloat16>()", Category.NORM, None),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >()",
     Category.ELEMENTWISE, None),
    ("triton_poi_fused_add_gelu_3", Category.ELEMENTWISE, None),
    ("triton_red_fused_native_layer_norm_0", Category.NORM, None),
    ("triton_per_fused_sum_1", Category.REDUCTION, None),
    ("void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>()",
     Category.REDUCTION, None),
    ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorList"
     "Metadata<4> >()", Category.OPTIMIZER, None),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>()", Category.LAYOUT,
     None),
    ("batched_transpose_32x32_half", Category.LAYOUT, None),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
     Category.COMMUNICATION, None),
    ("void vllm::cross_device_reduce_1stage<c10::BFloat16, 8>()", Category.COMMUNICATION, None),
    ("void at::native::max_pool_backward_nchw<float, float>()", Category.OTHER, None),
    ("my_own_kernel", Category.OTHER, None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "category", "precision"), NAMES)
def test_a_name_tells_the_work_and_its_precision(
    name: str, category: Category, precision: Precision | None
) -> None:
    assert category_of(name) is category
    if precision is not None:
        assert precision_of(name) is precision


@given(st.text(max_size=400))
def test_any_name_has_a_category_and_a_precision(name: str) -> None:
    assert category_of(name) in Category
    assert precision_of(name) in Precision


@pytest.mark.parametrize(
    ("name", "half", "bandwidth"),
    [
        ("NVIDIA H100 80GB HBM3", 989.4, 3350),
        ("NVIDIA H100 PCIe", 756, 2039),
        ("NVIDIA H200", 989.4, 4800),
        ("NVIDIA A100-SXM4-80GB", 312, 2039),
        ("NVIDIA A100 80GB PCIe", 312, 1935),
        ("NVIDIA A100-PCIE-40GB", 312, 1555),
        ("Tesla V100-SXM2-32GB", 125, 900),
        ("Tesla T4", 65, 320),
        ("NVIDIA L4", 121, 300),
        ("NVIDIA L40S", 362, 864),
        ("NVIDIA A10G", 70, 600),
        ("NVIDIA GeForce RTX 4090", 165.2, 1008),
        ("AMD Instinct MI300X VF", 1307.4, 5300),
        ("AMD Instinct MI250X/MI250", 191.5, 1638),
    ],
)
def test_cards_are_known_by_the_names_that_they_give_themselves(
    name: str, half: float, bandwidth: float
) -> None:
    card = card_of(name)
    assert card is not None
    assert (card.rate(Precision.HALF), card.bandwidth) == (half, bandwidth)
    assert card.rate(Precision.UNKNOWN) == 0


@pytest.mark.parametrize("name", ["", "AMD Radeon Graphics", "NVIDIA A1000", "Quadro RTX 40800"])
def test_other_cards_are_not_taken_for_those(name: str) -> None:
    assert card_of(name) is None


CORES = {
    TensorCores.YES: (
        "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        "turing_h1688gemm_256x64_ldg8_stages_32x1_tn",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_32x1_nn>",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_cublas",
        "sm80_xmma_fprop_implicit_gemm_f16f16_nhwc_tilesize128x32x64_g1_tensor16x8x16_execute",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT",
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<32>>",
        "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0",
    ),
    TensorCores.NO: (
        "ampere_sgemm_128x64_tn",
        "volta_scudnn_128x64_relu_small_nn_v1",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_ffma_aligna4_cublas",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>",
    ),
    # Products whose names do not tell, and work that they do not do.
    TensorCores.UNKNOWN: (
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80",
        "triton__0d1d2d3d",
        "triton_tem_fused_mm_0",
    ),
    TensorCores.NONE: (
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
        "triton_poi_fused_add_0",
        "SubTensorOpWithScalar1d",
        "void fbgemm_gpu::permute_2D_data_kernel<true, int>",
        "void (anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "void splitKreduce_kernel<32, 16, int, float>",
    ),
}


@pytest.mark.parametrize(("cores", "names"), CORES.items(), ids=[one.name for one in CORES])
def test_what_runs_on_tensor_cores(cores: TensorCores, names: tuple[str, ...]) -> None:
    assert {name: tensor_cores(name) for name in names} == dict.fromkeys(names, cores)
