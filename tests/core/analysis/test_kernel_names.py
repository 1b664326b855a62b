"""Names of kernels: one spelling for both demanglers, and short ones as they are shown."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.kernels.names import (
    base,
    canonical,
    short_name,
    short_names,
    without_arguments,
)


@dataclass(frozen=True)
class Kind:
    """A type as a tree, to be spelled as either demangler does."""

    name: tuple[str, ...]
    arguments: tuple[Any, ...] = ()
    const: bool = False
    stars: int = 0


ANONYMOUS = ""
SUFFIXES = {"int": "", "unsigned int": "u", "long": "l", "unsigned long": "ul"}


def by_ncu(item: Any) -> str:
    """``const ns::T<(int)4> *``."""
    if isinstance(item, tuple):
        return f"({item[0]}){item[1]}"
    text = "::".join(part or "<unnamed>" for part in item.name)
    if item.arguments:
        text += f"<{', '.join(map(by_ncu, item.arguments))}>"
    return f"{'const ' if item.const else ''}{text}{' ' if item.stars else ''}{'*' * item.stars}"


def by_profiler(item: Any) -> str:
    """``ns::T<4> const*``."""
    if isinstance(item, tuple):
        kind, value = item
        if kind == "bool":
            return "true" if value else "false"
        return f"{value}{SUFFIXES[kind]}"
    text = "::".join(part or "(anonymous namespace)" for part in item.name)
    if item.arguments:
        inner = ", ".join(map(by_profiler, item.arguments))
        text += f"<{inner}{' ' if inner.endswith('>') else ''}>"
    return f"{text}{' const' if item.const else ''}{'*' * item.stars}"


words = st.sampled_from(["float", "at", "native", "Array", "c10", "T4", "x2y", "k64u", "BFloat16"])
paths = st.lists(st.one_of(words, st.just(ANONYMOUS)), max_size=2).flatmap(
    lambda scope: words.map(lambda last: (*scope, last))
)
literals = st.tuples(st.sampled_from(sorted(SUFFIXES)), st.integers(0, 512))
kinds = st.recursive(
    st.builds(Kind, paths, st.just(()), st.booleans(), st.integers(0, 2)),
    lambda inner: st.builds(
        Kind,
        paths,
        st.lists(st.one_of(inner, literals), min_size=1, max_size=3).map(tuple),
        st.booleans(),
        st.integers(0, 2),
    ),
    max_leaves=6,
)
templates = st.builds(
    Kind, paths, st.lists(st.one_of(kinds, literals), min_size=1, max_size=4).map(tuple)
)
plain = st.builds(Kind, paths)
parameters = st.lists(kinds, max_size=3)


def kernel(function: Kind, arguments: list[Kind], spell: Any) -> str:
    result = "void " if function.arguments else ""
    return f"{result}{spell(function)}({', '.join(map(spell, arguments))})"


@pytest.mark.slow
@given(st.one_of(templates, plain), parameters)
def test_both_spellings_of_a_kernel_have_one_canonical_name(
    function: Kind, arguments: list[Kind]
) -> None:
    ours = canonical(kernel(function, arguments, by_profiler))
    assert canonical(kernel(function, arguments, by_ncu)) == ours
    assert canonical(ours) == ours
    assert without_arguments(ours) == canonical(by_ncu(function))
    assert base(ours) == function.name[-1]


@pytest.mark.slow
@given(templates, parameters, templates, parameters)
def test_different_kernels_stay_different(
    first: Kind, first_arguments: list[Kind], second: Kind, second_arguments: list[Kind]
) -> None:
    same = _bare((first, tuple(first_arguments))) == _bare((second, tuple(second_arguments)))
    names = [
        canonical(kernel(first, first_arguments, by_ncu)),
        canonical(kernel(second, second_arguments, by_profiler)),
    ]
    assert (names[0] == names[1]) == same


def _bare(item: Any) -> Any:
    """Without the types of literals, which the profiler does not always write."""
    if isinstance(item, Kind):
        arguments = tuple(
            each[1] if isinstance(each, tuple) else _bare(each) for each in item.arguments
        )
        return (item.name, arguments, item.const, item.stars)
    return tuple(map(_bare, item))


@pytest.mark.parametrize(
    ("ncu", "profiler"),
    [
        ("void f<(int)64, (bool)1>(int, const float *)", "void f<64, true>(int, float const*)"),
        ("void f<(bool)0>(int)", "void f<false>(int)"),
        ("f(unsigned int, const unsigned long *)", "f(unsigned int, unsigned long const*)"),
        ("void f<(long)-3>(int)", "void f<-3l>(int)"),
        ("f(const int (*)[4])", "f(int const (*)[4])"),
        ("void <unnamed>::softmax<c10::BFloat16>(T1 *)",
         "void (anonymous namespace)::softmax<c10::BFloat16>(T1*)"),
        ("void e<at::f([lambda(at::I &) (instance 2)]::operator ()() const)>(int)",
         "void e<at::f({lambda(at::I&)#2}::operator()() const)>(int)"),
        ("void e<[lambda(int) (instance 1)]::f(int) const::[lambda(float) (instance 3)]>(T1)",
         "void e<{lambda(int)#1}::f(int) const::{lambda(float)#3}>(T1)"),
        ("void e<[lambda([lambda(int) (instance 1)]) (instance 2)]>(const <unnamed>::T *)",
         "void e<{lambda({lambda(int)#1})#2}>((anonymous namespace)::T const*)"),
        ("sm80_xmma_gemm_f32f32_128x64_nn_v1", "sm80_xmma_gemm_f32f32_128x64_nn_v1"),
        ("triton__0d1d2de", "triton__0d1d2de"),
    ],
)  # fmt: skip
def test_known_pairs(ncu: str, profiler: str) -> None:
    assert canonical(ncu) == canonical(profiler)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("void a::b<int>::c<float>(int)", "c"),
        ("void (anonymous namespace)::k<a::b>(a::b)", "k"),
        ("k", "k"),
        ("", ""),
        (")", ")"),
        (">", ">"),
        ("(x)", "(x)"),
    ],
)
def test_the_functions_own_name(name: str, own: str) -> None:
    assert base(canonical(name)) == own


@given(st.text(alphabet="ab<>()[]{}:,*& 01uconstlmd#\n", max_size=80))
def test_any_text_has_a_name(text: str) -> None:
    name = canonical(text)
    assert isinstance(base(name) + without_arguments(name), str)


def test_endless_names_are_left_as_they_are() -> None:
    name = "const " * 50_000
    assert canonical(name) == name


NATIVE = "void at::native::"
COPY = (
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const"
    "::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}"
)
SUM = (
    "at::native::ReduceOp<c10::Half, at::native::func_wrapper_t<c10::Half, at::native::sum_functor"
    "<c10::Half, float, c10::Half>::operator()(at::TensorIterator&)::{lambda(float, float)#1}>, "
    "unsigned int, c10::Half, 4>"
)
FLASH = "pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>"

NAMES = [
    # Loops of PyTorch: what they compute, and in which type.
    (f"{NATIVE}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::"
     "Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
     "elementwise add<float>"),
    (f"{NATIVE}elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::"
     "BinaryFunctor<c10::Half, c10::Half, c10::Half, at::native::binary_internal::MulFunctor"
     "<float> > >(at::TensorIteratorBase&)::{lambda(int)#1}>(int)", "elementwise mul<half>"),
    (f"{NATIVE}vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, float, "
     "at::native::MulFunctor<float> >, std::array<char*, 2ul> >(int)",
     "elementwise mul<float> scalar"),
    (f"{NATIVE}unrolled_elementwise_kernel<{COPY}, std::array<char*, 2ul> >(int)",
     "elementwise direct_copy<bf16>"),
    (f"{NATIVE}vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIterator"
     "Base&, at::native::GeluType)::{lambda()#2}::operator()() const::{lambda(float)#1}>(int)",
     "elementwise gelu<float>"),
    (f"{NATIVE}reduce_kernel<512, 1, {SUM} >({SUM})", "reduce sum<half>"),
    (f"{NATIVE}reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, "
     "float, float>, unsigned int, float, 4> >()", "reduce mean<float>"),
    (f"{NATIVE}(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
     "TensorListMetadata<2>, at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, "
     "2, 0>, std::plus<float>, float>()", "multi_tensor_apply BinaryOpListAlpha plus<float>"),
    # ncu spells them otherwise.
    (f"{NATIVE}vectorized_elementwise_kernel<(int)4, at::native::BinaryFunctor<c10::Half, c10::Half"
     ", bool, at::native::<unnamed>::CompareEqFunctor<c10::Half>>, std::array<char *, (unsigned "
     "long)3>>(int, T2, T3)", "elementwise CompareEq<half>"),
    # Other templates: their own name, the type, and functions that they call.
    (f"{NATIVE}(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int)",
     "vectorized_layer_norm_kernel<bf16>"),
    (f"{NATIVE}(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::"
     "OpaqueType<2u>, unsigned int, 4, 64, 64>(char*)", "CatArrayBatchedCopy<2B>"),
    ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(int)",
     "gemv2T_kernel_val<float>"),
    ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true>(float)",
     "nchwToNhwcKernel<half>"),
    (f"void pytorch_flash::flash_fwd_kernel<{FLASH}, false, true>(pytorch_flash::Flash_fwd_params)",
     "flash_fwd_kernel<64, bf16>"),
    ("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>"
     "::Params)", "fmha_cutlassF_f32_aligned_64x64_rf_sm80"),
    # Libraries.
    ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
    ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2>"
     "(cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2::Params)",
     "cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align2"),
    ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int>, "
     "cutlass::bfloat16_t> >()", "GemmUniversal<bf16>"),
    ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x64x32_warpgroupsize1x1x1_execute_segment_k"
     "_off_kernel__5x_cublas", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n 128x64x32"),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1",
     "Cijk_Alik_Bljk_BBS_BH MT256x192x64"),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
     "AllReduce Sum f32 RING LL"),
    ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
     "SendRecv RING SIMPLE Sum int8_t"),
    ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "nccl Generic"),
    ("_ZN13cutlass_cudnn6KernelINS_4conv6kernel23ImplicitGemmConvolutionINS_4gemm9GemmShapeILi128E"
     "Li64ELi32EEEEEEvNT_6ParamsE", "ImplicitGemmConvolution 128x64x32"),
    ("_Z6scalarPfi", "scalar"),
    # As they are.
    ("triton_poi_fused__unsafe_view_mul_silu_2", "triton_poi_fused__unsafe_view_mul_silu_2"),
    ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
    ("Memset (Device)", "Memset (Device)"),
    ("my_kernel", "my_kernel"),
    # What is no kernel is never taken for one.
    ("aten::mm", "aten::mm"),
    ("train.py(12): forward", "train.py(12): forward"),
    ("autograd::engine::evaluate_function: MmBackward0",
     "autograd::engine::evaluate_function: MmBackward0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "short"), NAMES)
def test_a_name_as_an_engineer_says_it(name: str, short: str) -> None:
    assert short_name(name) == short


def test_a_name_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    name = (
        f"{NATIVE}vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::Half>, at::de"
    )
    assert short_name(name) == "elementwise add<half>"


def loop(kind: str, functor: str) -> str:
    return f"{NATIVE}{kind}<4, at::native::{functor}<float>, at::detail::Array<char*, 3> >(int)"


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (
            [
                loop("vectorized_elementwise_kernel", "CUDAFunctor_add"),
                loop("elementwise_kernel", "CUDAFunctor_add"),
                loop("unrolled_elementwise_kernel", "CUDAFunctor_add"),
            ],
            [
                "elementwise add<float> [vectorized]",
                "elementwise add<float> [strided]",
                "elementwise add<float> [unrolled]",
            ],
        ),
        (
            [
                loop("vectorized_elementwise_kernel", "CUDAFunctor_add"),
                loop("vectorized_elementwise_kernel", "AddFunctor"),
            ],
            ["elementwise add<float> [CUDAFunctor_add]", "elementwise add<float> [AddFunctor]"],
        ),
        (
            [
                f"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, {size}, true, 1>(float)"
                for size in (512, 128)
            ],
            ["bn_bw_1C11_kernel_new<float> [512]", "bn_bw_1C11_kernel_new<float> [128]"],
        ),
        (
            [
                "sm80_xmma_gemm_f32f32_tn_n_tilesize64x256x8_stage3_execute_split_k_kernel__5x",
                "sm80_xmma_gemm_f32f32_tn_n_tilesize64x256x8_stage3_execute_kernel__5x",
            ],
            ["sm80_xmma_gemm_f32f32_tn_n 64x256x8 [split]", "sm80_xmma_gemm_f32f32_tn_n 64x256x8"],
        ),
        # Two demanglers, one kernel: nothing in the names tells them apart.
        (["void f<(int)4>(int)", "void f<4>(int)"], ["f", "f #2"]),
    ],
)
def test_kernels_of_one_table_are_distinguished(names: list[str], shown: list[str]) -> None:
    assert list(short_names(names).values()) == shown


def test_a_name_that_is_too_long_keeps_its_end() -> None:
    tiles = [f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{n}x64x64_x" for n in (64, 128)]
    assert list(short_names(tiles, 30).values()) == [
        "sm90_xmma_gemm_bf1…_n 64x64x64",
        "sm90_xmma_gemm_bf1…n 128x64x64",
    ]


functors = st.sampled_from(["CUDAFunctor_add", "AddFunctor", "MulFunctor", "FillFunctor", "Op"])
types = st.sampled_from(["float", "c10::Half", "c10::BFloat16", "unsigned int", "OpaqueType<2u>"])
operations = st.recursive(
    st.builds("at::native::{}<{}>".format, functors, types),
    lambda inner: (
        st.builds("at::native::BinaryFunctor<{}, {}, {}>".format, types, types, inner)
        | st.builds("at::native::gpu_kernel_impl<{}>(int)::{{lambda(int)#1}}".format, inner)
    ),
    max_leaves=3,
)
loops = st.sampled_from(
    ["vectorized_elementwise_kernel", "elementwise_kernel", "reduce_kernel", "f"]
)
kernels = st.builds(
    f"{NATIVE}{{}}<{{}}, {{}}, {{}}>(int, {{}})".format,
    loops, st.integers(1, 8), operations, st.integers(0, 2), types,
)  # fmt: skip
words_of = st.from_regex(
    r"(sm80_xmma|Cijk_A|ncclKernel)_[A-Z]{1,3}_MT[12]x2x3_[a-c#]{0,3}", fullmatch=True
)
tables = st.lists(
    kernels | words_of | st.text(max_size=60) | st.sampled_from([n for n, _ in NAMES])
)


@pytest.mark.slow
@given(tables, st.integers(20, 80))
def test_no_two_kernels_of_a_table_read_the_same(names: list[str], width: int) -> None:
    for shown in (short_names(names), short_names(names, width)):
        assert set(shown) == set(names)
        assert len(set(shown.values())) == len(shown)
    assert max(map(len, short_names(names, width).values()), default=0) <= width


@given(kernels)
def test_a_short_name_is_no_longer_than_the_whole(name: str) -> None:
    assert 0 < len(short_name(name)) <= len(name)
