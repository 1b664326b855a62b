"""Names of kernels, as libraries write them."""

import pytest

from perftui.analysis.kernels.category import TensorCores, tensor_cores


@pytest.mark.parametrize(
    "name",
    [
        "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn",
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
        "turing_h1688gemm_256x64_ldg8_stages_32x1_tn",
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_32x1_nn>",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_cublas",
        "sm80_xmma_fprop_implicit_gemm_f16f16_nhwc_tilesize128x32x64_g1_tensor16x8x16_execute",
        "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT",
        "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<32>>",
        "Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1_SN_1LDSB0",
    ],
)
def test_on_tensor_cores(name: str) -> None:
    assert tensor_cores(name) is TensorCores.YES


@pytest.mark.parametrize(
    "name",
    [
        "ampere_sgemm_128x64_tn",
        "volta_scudnn_128x64_relu_small_nn_v1",
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_ffma_aligna4_cublas",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>",
    ],
)
def test_on_the_ordinary_units(name: str) -> None:
    assert tensor_cores(name) is TensorCores.NO


@pytest.mark.parametrize(
    "name",
    ["fmha_cutlassF_f32_aligned_64x64_rf_sm80", "triton__0d1d2d3d", "triton_tem_fused_mm_0"],
)
def test_a_product_whose_name_does_not_tell(name: str) -> None:
    assert tensor_cores(name) is TensorCores.UNKNOWN


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>",
        "triton_poi_fused_add_0",
        "SubTensorOpWithScalar1d",
        "void fbgemm_gpu::permute_2D_data_kernel<true, int>",
        "void (anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "void splitKreduce_kernel<32, 16, int, float>",
    ],
)
def test_work_that_they_do_not_do(name: str) -> None:
    assert tensor_cores(name) is TensorCores.NONE
