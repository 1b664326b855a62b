"""The name of a kernel as an engineer says it: ``elementwise add<float>``.

Demangled names of PyTorch's kernels name the template of the loop first and what it computes, the
functor, hundreds of characters later; libraries write the architecture, the precision and the tile
into one word. What distinguishes kernels is kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from perftui.analysis.kernels.cpp_name import (
    INDICES,
    Component,
    components,
    floating_within,
    is_number,
    scalar,
    scalars,
)
from perftui.analysis.kernels.names import canonical

_LONGEST = 8 * 1024
"""Characters that are looked at; those of CUTLASS 3 have some thousand."""

_CPP = re.compile(r"void |[\w:~]+(<|\(.*\)$)|.*\(anonymous namespace\)::", re.DOTALL)

_ELEMENTWISE = re.compile(r"(\w+_)?elementwise(_grid_stride)?_kernel(_\w+)?")
_FAMILIES = {
    "reduce_kernel": "reduce",
    "multi_tensor_apply_kernel": "multi_tensor_apply",
    "Kernel": "",
    "Kernel2": "",
    "device_kernel": "",
    "_kernel_agent": "",
}
"""Templates that say nothing alone, with what is said before the operation they are made for."""

_TRANSPARENT = re.compile(
    r"gpu_kernel_impl\w*|gpu_index_kernel|opmath_\w*gpu_kernel\w*|gpu_kernel\w*|enable_\w+"
    r"|(Binary|Unary|AUnary|BUnary)Functor|ReduceOp|func_wrapper_t"
)
"""Wrappers around the operation, which is the first of their arguments that is no scalar."""
_ONE_SIDE = re.compile(r"[AB]UnaryFunctor|CUDAFunctorOn\w+_\w+")
"""Of two operands one is a number."""

_PLUMBING = re.compile(r"\w*(Metadata|Policy|Generator\w*|Accessor|Calculator|Params)$")
_TELLING = re.compile(r"\w*(Functor|_functor|Ops?|Epilogue)$")
_MOST_TOLD = 3
_TRAITS = re.compile(r"\w*kernel_traits\w*", re.IGNORECASE)

_BEFORE = re.compile(r"^(CUDAFunctor\w*?_|launch_|_cuda_)")
_BEHIND = re.compile(
    r"(_?[Ff]unctor|_?[Oo]ps|_kernel_cuda|_cuda_kernel|_kernel_impl|(CUDA)?KernelImpl|_kernel"
    r"|_and_transform|_cuda_out|_cuda|_impl)$"
)
_WORD = re.compile(r"[A-Z][a-z]+")

_NCCL = re.compile(r"nccl\w*?Kernel_(\w+)")
_COLLECTIVE = re.compile(r"(All|Reduce|Broadcast|Send|Scatter|Gather)")
_XMMA = re.compile(r"(sm\d+_xmma_\w+?)_tilesize(\d+x\d+x\d+)\w*")
_LENGTH = re.compile(r"\d+(?=[A-Za-z_])")
_TILE = re.compile(r"ShapeILi(\d+)ELi(\d+)ELi(\d+)E")
_TENSILE = re.compile(r"(Cijk_\w+?_\w+?(?:_[A-Z0-9]{1,3})+)_\w*?(MT\d+x\d+x\d+)\w*")


@lru_cache(maxsize=8192)
def short_name(name: str) -> str:
    """The kernel's name without namespaces, result type, parameters and those template arguments
    that say nothing; Triton's names, copies and sets as they are.

    Different kernels may get one name: ``distinct_names.short_names`` names those of a table.
    """
    if name.startswith("_Z"):
        return _of_mangled(name)
    if not _CPP.match(name):
        return _of_library(name)
    named = _named(components(canonical(name[:_LONGEST])))
    if named is None:
        return name
    if not named.arguments:
        return _of_library(named.base)
    family = "elementwise" if _ELEMENTWISE.fullmatch(named.base) else _FAMILIES.get(named.base)
    found = None if family is None else _of_family(family, named)
    return found or _plain(named)


def _named(parts: Sequence[Component]) -> Component | None:
    """The innermost component that has a name; a lambda has none, and neither has what calls it."""
    found = [part for part in parts if not part.is_lambda and part.base not in ("", "operator()")]
    return found[-1] if found else None


def _of_library(word: str) -> str:
    """Names in one word, as communication libraries, cuBLAS and rocBLAS write them."""
    if found := _NCCL.fullmatch(word):
        words = re.sub(r"_(?!t(?:_|$))", " ", found[1])
        return words if _COLLECTIVE.match(words) else f"nccl {words}"
    if found := _XMMA.fullmatch(word) or _TENSILE.fullmatch(word):
        return f"{found[1]} {found[2]}"
    return word


def _of_mangled(name: str) -> str:
    """What a name that nothing demangled calls its kernel, and the tile: its words stand behind
    their lengths, namespaces and ``Kernel`` before what distinguishes kernels."""
    words, at = [], 0
    while found := _LENGTH.search(name, at):
        at = found.end() + int(found[0])
        words.append(name[found.end() : at])
    telling = [word for word in words if word[:1].isupper() and word not in _FAMILIES]
    tile = _TILE.search(name)
    shown = [*(telling or words)[:1], *(["x".join(tile.groups())] if tile else [])]
    return " ".join(shown) or name


def _of_family(family: str, named: Component) -> str:
    """What a template of loops is made for; empty where that does not show."""
    operations = [one for one in named.arguments if _is_operation(one)]
    found = [_operation(one) for one in operations[:1]]
    if family == "multi_tensor_apply":
        # Behind the functor of the list comes what it does with each element, if it is open.
        found += [_operation(one) for one in operations[1:2] if one.endswith(">")]
    words = [word for word, _, _ in found if word]
    if not words:
        return ""
    kind = _first_scalar(named) or next((kind for _, kind, _ in found if kind), "")
    ending = " scalar" if any(one_side for _, _, one_side in found) else ""
    return f"{family} {' '.join(words)}{f'<{kind}>' if kind else ''}{ending}".strip()


def _is_operation(argument: str) -> bool:
    if not argument or argument[0] == "(" or argument[-1] == "*":
        return False
    if is_number(argument) or scalar(argument):
        return False
    named = _named(components(argument.removeprefix("void ")))
    return named is not None and not _PLUMBING.fullmatch(named.base)


def _operation(argument: str) -> tuple[str, str, bool]:
    """The name of a function object, the type it computes in, and whether an operand is fixed."""
    parts = components(argument.removeprefix("void "))
    named = _named(parts)
    if named is None:
        return "", "", False
    one_side = _ONE_SIDE.fullmatch(named.base) is not None
    kind = _first_scalar(named)
    if _TRANSPARENT.fullmatch(named.base):
        inner = next((one for one in named.arguments if _is_operation(one)), None)
        if inner is not None:
            word, inner_kind, inner_side = _operation(inner)
            return word, kind or inner_kind, one_side or inner_side
    lambdas = [part for part in parts if part.is_lambda]
    values = [one for one in lambdas[-1].parameters if one[-1:] != "*"] if lambdas else ()
    called_with = next(scalars(values), "")
    kind = called_with or kind or floating_within(",".join(named.arguments))
    return _word(named.base), kind, one_side


def _first_scalar(named: Component) -> str:
    """The type in front, which is that of the values; behind come those of indices and sums."""
    return scalar(named.arguments[0]) if named.arguments else ""


def _word(base: str) -> str:
    """``MeanOps`` as ``mean``, ``CUDAFunctor_add`` as ``add``."""
    word = _BEFORE.sub("", base)
    while (shorter := _BEHIND.sub("", word)) and shorter != word:
        word = shorter
    if not word:
        return base
    return word.lower() if _WORD.fullmatch(word) else word


def _plain(named: Component) -> str:
    """A template with the type it computes in, and what else of its arguments has a meaning."""
    arguments = named.arguments
    kinds = list(scalars(arguments))
    # The first, which is that of the values, but for an index.
    kind = next((one for one in kinds if one not in INDICES), kinds[0] if kinds else "")
    told = [*([kind] if kind else []), *filter(None, map(_told, arguments))]
    if not kind:
        told += [floating_within(",".join(arguments))]
    told = [one for one in told if one][:_MOST_TOLD]
    return f"{named.base}<{', '.join(told)}>" if told else named.base


def _told(argument: str) -> str:
    """What an argument of a kernel says: the function it calls, or the size of a head of attention;
    empty for what lays out its work."""
    parts = components(argument)
    named = _named(parts)
    if named is None:
        return ""
    if _TRAITS.fullmatch(named.base):
        return next(filter(is_number, named.arguments[:1]), "")
    is_function = any(part.is_lambda for part in parts) or _TELLING.fullmatch(named.base)
    return named.base if is_function else ""
