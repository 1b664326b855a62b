from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.kernels.names import base, canonical, without_arguments


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
    return tuple(_bare(each) if not isinstance(each, tuple) else _bare_all(each) for each in item)


def _bare_all(items: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_bare(each) for each in items)


@pytest.mark.parametrize(
    ("ncu", "profiler"),
    [
        ("void f<(int)64, (bool)1>(int, const float *)", "void f<64, true>(int, float const*)"),
        ("void f<(bool)0>(int)", "void f<false>(int)"),
        ("f(unsigned int, const unsigned long *)", "f(unsigned int, unsigned long const*)"),
        ("void f<(long)-3>(int)", "void f<-3l>(int)"),
        ("f(const int (*)[4])", "f(int const (*)[4])"),
        (
            "void <unnamed>::softmax<c10::BFloat16>(T1 *)",
            "void (anonymous namespace)::softmax<c10::BFloat16>(T1*)",
        ),
        (
            "void e<at::f([lambda(at::I &) (instance 2)]::operator ()() const)>(int)",
            "void e<at::f({lambda(at::I&)#2}::operator()() const)>(int)",
        ),
        (
            "void e<[lambda(int) (instance 1)]::f(int) const::[lambda(float) (instance 3)]>(T1)",
            "void e<{lambda(int)#1}::f(int) const::{lambda(float)#3}>(T1)",
        ),
        (
            "void e<[lambda([lambda(int) (instance 1)]) (instance 2)]>(const <unnamed>::T *)",
            "void e<{lambda({lambda(int)#1})#2}>((anonymous namespace)::T const*)",
        ),
        ("sm80_xmma_gemm_f32f32_128x64_nn_v1", "sm80_xmma_gemm_f32f32_128x64_nn_v1"),
        ("triton__0d1d2de", "triton__0d1d2de"),
    ],
)
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
