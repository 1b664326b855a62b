from __future__ import annotations

import pytest

from perftui.trace.nsys.names import call_label, kernel_name


@pytest.mark.parametrize(
    ("short", "demangled", "wanted"),
    [
        ("k", "void k<(int)4, ns::Sum<float>>(int, T2)", "k<4, ns::Sum<float>>"),
        ("k", "void ns::k<&ns::f, (a)-1, (bool)1>(T1)", "k<&ns::f, (a)-1, 1>"),
        ("k", "void k<A(int, B<int>)::[lambda(int) (instance 1)]>(T1)", None),
        ("k", "void k<(Enum)(3 > 2), X>(T1)", "k<(Enum)(3 > 2), X>"),
        ("k", "void k<decltype(a->b)>(T1)", "k<decltype(a->b)>"),
        ("k", "ns::k(ns::Tensor<float>)", "k"),
        ("sm80_gemm", "sm80_gemm", "sm80_gemm"),
        ("k", "void other(int)", "k"),
        ("k", "void k_k<k<int>>(int)", "k<int>"),
        ("k", "void k<broken", "k<broken"),
        ("k", None, "k"),
        (None, "void k()", "void k()"),
        (None, None, "unknown kernel"),
    ],
)
def test_a_kernel_is_called_by_its_function_and_template_arguments(
    short: str | None, demangled: str | None, wanted: str | None
) -> None:
    lambda_inside = "k<A(int, B<int>)::[lambda(int) (instance 1)]>"
    assert kernel_name(short, demangled) == (wanted or lambda_inside)


@pytest.mark.parametrize(
    ("recorded", "name", "category"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "cuda_runtime"),
        ("cudaStreamSynchronize_ptsz_v7000", "cudaStreamSynchronize", "cuda_runtime"),
        ("cudaGetDeviceProperties_v2_v12000", "cudaGetDeviceProperties_v2", "cuda_runtime"),
        ("cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2", "cuda_driver"),
        ("cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH_v2", "cuda_driver"),
        ("cublasSgemm", "cublasSgemm", "cuda_runtime"),
    ],
)
def test_a_call_is_called_without_the_version_that_introduced_it(
    recorded: str, name: str, category: str
) -> None:
    label = call_label(recorded)
    assert (label.name, label.category) == (name, category)
