"""One spelling for kernel names that demanglers write differently, and short names for display."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from perftui.format import middle
from perftui.trace.model import KERNEL, Trace

_ANONYMOUS = re.compile(r"\(anonymous namespace\)|<unnamed>")
_NCU_LAMBDA = re.compile(r"\[lambda(\([^\[\]]*\)) \(instance (\d+)\)\]")
_CAST = re.compile(r"\((?:bool|(?:(?:un)?signed )?(?:char|short|int|long|long long))\)(-?\d+)")
_SUFFIX = re.compile(r"(?<![\w.])(-?\d+)(?:ull|ul|ll|u|l)\b", re.IGNORECASE)
_BOOLEAN = re.compile(r"\b(?:true|false)\b")
_CONST_FIRST = re.compile(r"(?:^|(?<=[(<,])|(?<=[(<,] ))const ")
_LOOSE = re.compile(r"(?<![\w]) +| +(?![\w])")
_SPACES = re.compile(r"\s+")

_LONGEST_CANONICAL = 32 * 1024
"""Most characters made canonical; real names have some thousand. Longer ones are compared as is."""


def canonical(name: str) -> str:
    """The name with its arguments, without what only one of the two demanglers writes.

    ncu writes ``(int)64``, ``(bool)1``, ``(unsigned long)2``, ``char *``, ``<unnamed>::`` and
    ``[lambda(int) (instance 1)]`` where the profiler writes ``64``, ``true``, ``2ul``, ``char*``,
    ``(anonymous namespace)::`` and ``{lambda(int)#1}``; ``const T *`` is ``T const*`` there. The
    result type ``void`` of a template is dropped too.
    """
    if len(name) > _LONGEST_CANONICAL:
        return name
    text = _SPACES.sub(" ", name.strip()).removeprefix("void ")
    text = _ANONYMOUS.sub("{anonymous}", text)
    # From the inside out: the arguments of a lambda can contain another one.
    while (changed := _NCU_LAMBDA.sub(r"{lambda\1#\2}", text)) != text:
        text = changed
    text = _CAST.sub(r"\1", text)
    text = _SUFFIX.sub(r"\1", text)
    text = _BOOLEAN.sub(lambda match: "1" if match.group() == "true" else "0", text)
    return _LOOSE.sub("", _const_last(text))


def _const_last(text: str) -> str:
    """``const T*`` as ``T const*``: from the right, so that inner types move first."""
    for match in reversed(list(_CONST_FIRST.finditer(text))):
        depth, end = 0, match.end()
        while end < len(text) and not (depth == 0 and text[end] in "*&,)>("):
            depth += {"<": 1, "{": 1, ">": -1, "}": -1}.get(text[end], 0)
            end += 1
        kind = text[match.end() : end].strip()
        text = f"{text[: match.start()]}{kind} const{text[end:]}"
    return text


def without_arguments(canonical_name: str) -> str:
    """The canonical name without its last ``(...)``, which follows from the template arguments.

    ncu writes the types of a template's parameters as ``T2``, the profiler in full.
    """
    return _without_last(canonical_name, "(", ")")


def _without_last(name: str, opening: str, closing: str) -> str:
    """``name`` without the brackets at its end and their contents."""
    if not name.endswith(closing):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {closing: 1, opening: -1}.get(name[at], 0)
        if depth == 0:
            return name[:at] or name
    return name


def base(canonical_name: str) -> str:
    """Only the function's own name, as ``ncu --kernel-name-base function`` prints it."""
    text = _without_last(without_arguments(canonical_name), "<", ">")
    depth = 0
    for at in range(len(text) - 1, 0, -1):
        depth += {">": 1, ")": 1, "}": 1, "<": -1, "(": -1, "{": -1}.get(text[at], 0)
        if depth == 0 and text.startswith("::", at):
            return text[at + 2 :] or text
    return text


_OPENING, _CLOSING = "<({[", ">)}]"
_MARKS = re.compile(r"[<({\[>)}\]]|::|,")
_HEAD = re.compile(r"operator\(\)|[^<({\[]*")
_LAMBDA = re.compile(r"\{lambda|'lambda\d*'")

_SPELLINGS = {
    **{name: (name,) for name in ("float", "double", "bool", "int")},
    **{name: (name,) for name in ("complex<float>", "complex<double>")},
    "int8": ("char", "signed char"),
    "uint8": ("unsigned char",),
    "int16": ("short",),
    "uint": ("unsigned int",),
    "long": ("long", "long long"),
    "ulong": ("unsigned long", "unsigned long long"),
    "half": ("Half", "half", "half_t", "__half"),
    "bf16": ("BFloat16", "bfloat16_t", "__nv_bfloat16", "__hip_bfloat16", "hip_bfloat16"),
    "tf32": ("tfloat32_t",),
    "fp8 e4m3": ("float_e4m3_t", "Float8_e4m3fn", "__nv_fp8_e4m3"),
    "fp8 e5m2": ("float_e5m2_t", "Float8_e5m2", "__nv_fp8_e5m2"),
}
_SCALARS = {spelling: name for name, spelled in _SPELLINGS.items() for spelling in spelled}
INDICES = frozenset({"bool", "int8", "uint8", "int16", "int", "uint", "long", "ulong"})
"""Short names of types that count or address; they are rarely the type of values."""

_NAMESPACE = re.compile(r"(?:\w+|\{anonymous\})::")
_QUALIFIERS = re.compile(r"(?<![\w:])const |(?:const)?[&*]+$| const$")
_OPAQUE = re.compile(r"OpaqueType<(\d+)>")
_ANYWHERE = re.compile(
    r"(?<![\w])(?:float|double|\w*[Hh]alf(?:_t)?|\w*[Bb][Ff]loat16(?:_t)?)(?!\w)"
)


@dataclass(frozen=True)
class Component:
    """A component between two ``::`` of a name, ``at`` or ``reduce_kernel<512, 1, Op>(Op)``."""

    text: str

    @cached_property
    def base(self) -> str:
        """Its name without arguments and result type."""
        return self._head.strip().rpartition(" ")[2]

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Its template arguments."""
        rest = self.text[len(self._head) :]
        return tuple(split(_inside(rest), ",")) if rest.startswith("<") else ()

    @property
    def is_lambda(self) -> bool:
        """Whether it is a lambda."""
        return _LAMBDA.match(self.text) is not None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Parameter types of a lambda."""
        at = self.text.find("(")
        return tuple(split(_inside(self.text[at:]), ",")) if at >= 0 else ()

    @cached_property
    def _head(self) -> str:
        match = _HEAD.match(self.text)
        return match.group() if match else ""


def components(canonical_name: str) -> list[Component]:
    """The components of a canonical name, outermost first."""
    return [Component(text) for text in split(canonical_name, "::")]


def split(text: str, separator: str) -> list[str]:
    """Split ``text`` at each ``separator``, ``::`` or a comma, outside brackets; a truncated name
    is split as far as it goes."""
    parts, begin, depth = [], 0, 0
    for match in _MARKS.finditer(text):
        mark = match.group()
        if mark == separator and not depth:
            parts.append(text[begin : match.start()])
            begin = match.end()
        depth = max(0, depth + (mark in _OPENING) - (mark in _CLOSING))
    return [*parts, text[begin:]]


def _inside(text: str) -> str:
    """Contents of the brackets that ``text`` begins with."""
    depth = 0
    for match in _MARKS.finditer(text):
        depth += (match.group() in _OPENING) - (match.group() in _CLOSING)
        if not depth:
            return text[1 : match.start()]
    return text[1:]


def scalar(argument: str) -> str:
    """The short name of a scalar type, ``c10::BFloat16`` as ``bf16``; for values that are only
    moved their size, ``2B``; empty for anything else."""
    plain = _QUALIFIERS.sub("", argument)
    bare = _NAMESPACE.sub("", plain)
    if match := _OPAQUE.fullmatch(bare):
        return f"{match[1]}B"
    return _SCALARS.get(plain) or _SCALARS.get(bare, "")


def scalars(arguments: Sequence[str]) -> Iterator[str]:
    """Short names of the scalar types among the arguments."""
    return filter(None, map(scalar, arguments))


def is_number(argument: str) -> bool:
    """Whether a template argument is a canonical number or boolean."""
    return argument.lstrip("-").isdecimal()


def floating_within(text: str) -> str:
    """The first floating type anywhere in ``text``; empty without one."""
    match = _ANYWHERE.search(text)
    return _SCALARS.get(match.group(), "") if match else ""


# Demangled names of PyTorch's kernels start with the template of the loop, and the functor, which
# says what it computes, comes hundreds of characters later; libraries write architecture, precision
# and tile into one word. Whatever distinguishes kernels is kept.

_LONGEST_SHORTENED = 8 * 1024
"""Most characters examined; names of CUTLASS 3 have some thousand."""

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
"""Templates that say nothing alone, with the prefix for the operation they are made for."""

_TRANSPARENT = re.compile(
    r"gpu_kernel_impl\w*|gpu_index_kernel|opmath_\w*gpu_kernel\w*|gpu_kernel\w*|enable_\w+"
    r"|(Binary|Unary|AUnary|BUnary)Functor|ReduceOp|func_wrapper_t"
)
"""Wrappers around the operation, which is their first argument that is not a scalar."""
_ONE_SIDE = re.compile(r"[AB]UnaryFunctor|CUDAFunctorOn\w+_\w+")
"""One of two operands is a number."""

_PLUMBING = re.compile(r"\w*(Metadata|Policy|Generator\w*|Accessor|Calculator|Params)$")
_TELLING = re.compile(r"\w*(Functor|_functor|Ops?|Epilogue)$")
_TRAITS = re.compile(r"\w*kernel_traits\w*", re.IGNORECASE)

_BEFORE = re.compile(r"^(CUDAFunctor\w*?_|launch_|_cuda_)")
_BEHIND = re.compile(
    r"(_?[Ff]unctor|_?[Oo]ps|_kernel_cuda|_cuda_kernel|_kernel_impl|(CUDA)?KernelImpl|_kernel"
    r"|_and_transform|_cuda_out|_cuda|_impl)$"
)
_CAPITALISED = re.compile(r"[A-Z][a-z]+")

_NCCL = re.compile(r"nccl\w*?Kernel_(\w+)")
_COLLECTIVE = re.compile(r"(All|Reduce|Broadcast|Send|Scatter|Gather)")
_XMMA = re.compile(r"(sm\d+_xmma_\w+?)_tilesize(\d+x\d+x\d+)\w*")
_LENGTH = re.compile(r"\d+(?=[A-Za-z_])")
_TILE = re.compile(r"ShapeILi(\d+)ELi(\d+)ELi(\d+)E")
_TENSILE = re.compile(r"(Cijk_\w+?_\w+?(?:_[A-Z0-9]{1,3})+)_\w*?(MT\d+x\d+x\d+)\w*")


@lru_cache(maxsize=8192)
def short_name(name: str) -> str:
    """The kernel's name without namespaces, result type, parameters and template arguments that say
    nothing; names of Triton, copies and sets are unchanged.

    Different kernels may get the same name: ``short_names`` makes those of a table unique.
    """
    if name.startswith("_Z"):
        # Words follow their lengths; namespaces and ``Kernel`` come before what distinguishes
        # kernels.
        words, at = [], 0
        while match := _LENGTH.search(name, at):
            at = match.end() + int(match[0])
            words.append(name[match.end() : at])
        telling = [word for word in words if word[:1].isupper() and word not in _FAMILIES]
        tile = _TILE.search(name)
        shown = [*(telling or words)[:1], *(["x".join(tile.groups())] if tile else [])]
        return " ".join(shown) or name
    if not _CPP.match(name):
        return _of_library(name)
    part = _named(components(canonical(name[:_LONGEST_SHORTENED])))
    if part is None:
        return name
    if not part.arguments:
        return _of_library(part.base)
    family = "elementwise" if _ELEMENTWISE.fullmatch(part.base) else _FAMILIES.get(part.base)
    text = None if family is None else _operation_name(family, part)
    return text or _plain(part)


def _named(parts: Sequence[Component]) -> Component | None:
    """The innermost component with a name, not a lambda or its ``operator()``."""
    named = [part for part in parts if not part.is_lambda and part.base not in ("", "operator()")]
    return named[-1] if named else None


def _of_library(word: str) -> str:
    """Shorten one-word names, as of communication libraries, cuBLAS and rocBLAS."""
    if match := _NCCL.fullmatch(word):
        words = re.sub(r"_(?!t(?:_|$))", " ", match[1])
        return words if _COLLECTIVE.match(words) else f"nccl {words}"
    if match := _XMMA.fullmatch(word) or _TENSILE.fullmatch(word):
        return f"{match[1]} {match[2]}"
    return word


def _operation_name(family: str, template: Component) -> str:
    """The operation that a template of loops is instantiated with; empty if unclear."""
    operations = [argument for argument in template.arguments if _is_operation(argument)]
    described = [_operation(argument) for argument in operations[:1]]
    if family == "multi_tensor_apply":
        # After the functor of the list comes its operation on each element, if that is a template.
        described += [_operation(arg) for arg in operations[1:2] if arg.endswith(">")]
    words = [word for word, _, _ in described if word]
    if not words:
        return ""
    kind = _first_scalar(template) or next((kind for _, kind, _ in described if kind), "")
    ending = " scalar" if any(one_side for _, _, one_side in described) else ""
    return f"{family} {' '.join(words)}{f'<{kind}>' if kind else ''}{ending}".strip()


def _is_operation(argument: str) -> bool:
    if not argument or argument[0] == "(" or argument[-1] == "*":
        return False
    if is_number(argument) or scalar(argument):
        return False
    component = _named(components(argument.removeprefix("void ")))
    return component is not None and not _PLUMBING.fullmatch(component.base)


def _operation(argument: str) -> tuple[str, str, bool]:
    """The name of a function object, its compute type, and whether an operand is fixed."""
    parts = components(argument.removeprefix("void "))
    item = _named(parts)
    if item is None:
        return "", "", False
    one_side = _ONE_SIDE.fullmatch(item.base) is not None
    kind = _first_scalar(item)
    if _TRANSPARENT.fullmatch(item.base):
        inner = next((arg for arg in item.arguments if _is_operation(arg)), None)
        if inner is not None:
            word, inner_kind, inner_side = _operation(inner)
            return word, kind or inner_kind, one_side or inner_side
    lambdas = [part for part in parts if part.is_lambda]
    values = [value for value in lambdas[-1].parameters if value[-1:] != "*"] if lambdas else ()
    called_with = next(scalars(values), "")
    kind = called_with or kind or floating_within(",".join(item.arguments))
    return _word(item.base), kind, one_side


def _first_scalar(component: Component) -> str:
    """The first argument if a scalar, the type of values; those of indices and sums come later."""
    return scalar(component.arguments[0]) if component.arguments else ""


def _word(base: str) -> str:
    """``MeanOps`` as ``mean``, ``CUDAFunctor_add`` as ``add``."""
    word = _BEFORE.sub("", base)
    while (shorter := _BEHIND.sub("", word)) and shorter != word:
        word = shorter
    if not word:
        return base
    return word.lower() if _CAPITALISED.fullmatch(word) else word


def _plain(component: Component) -> str:
    """A template with its compute type and other meaningful arguments."""
    arguments = component.arguments
    kinds = list(scalars(arguments))
    # The first type that is not an index: that of the values.
    kind = next((name for name in kinds if name not in INDICES), kinds[0] if kinds else "")
    words = [*([kind] if kind else []), *filter(None, map(_meaning, arguments))]
    if not kind:
        words += [floating_within(",".join(arguments))]
    words = [word for word in words if word][:3]
    return f"{component.base}<{', '.join(words)}>" if words else component.base


def _meaning(argument: str) -> str:
    """What an argument of a kernel says: the function it calls, or the head size of attention;
    empty for what lays out its work."""
    parts = components(argument)
    component = _named(parts)
    if component is None:
        return ""
    if _TRAITS.fullmatch(component.base):
        return next(filter(is_number, component.arguments[:1]), "")
    is_function = any(part.is_lambda for part in parts) or _TELLING.fullmatch(component.base)
    return component.base if is_function else ""


_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+")
_LOOP = re.compile(
    r"(?:(vectorized|unrolled)\w*_)?(?:\w+_)?elementwise_kernel(?:_(?:manual_)?(unroll))?"
)

_MOST_ADDED = 40
"""Most characters added to distinguish kernels; beyond that they are numbered."""
_DEEPEST = 6
"""Deepest nesting of arguments that are compared."""

_WIDEST = 512
"""Most characters of a short name without another limit."""

_Parts = Mapping[str, str]
"""Components of a name by their places in it."""


def short_names(names: Iterable[str], width: int = _WIDEST) -> Mapping[str, str]:
    """The short name of each of ``names``, at most ``width`` characters (20 or more); different
    names never share one.

    Otherwise equal names get their differences in brackets: ``elementwise add<float>
    [vectorized]``. A name that is too long loses its middle.
    """
    alike: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        alike.setdefault(short_name(name), []).append(name)
    result: dict[str, str] = {}
    for short, same in alike.items():
        added = _differences({name: _parts(name) for name in same}) if len(same) > 1 else {}
        for name in same:
            text = " ".join(added.get(name, ()))
            result[name] = f"{short} [{text}]" if 0 < len(text) <= _MOST_ADDED else short
    return _numbered(result, width)


def _parts(name: str) -> _Parts:
    """Parts of the whole name: of a C++ name by their places, for comparison with other names; of a
    one-word name by the text around numbers."""
    text = canonical(name)
    result: dict[str, str] = {}
    if "<" not in text and "(" not in text:
        seen: Counter[str] = Counter()
        for word in _WORD.findall(text):
            kind = _NUMBER.sub("#", word)
            seen[kind] += 1
            result[f"{kind} {seen[kind]}"] = word
        return result
    _collect(text, "", 0, result)
    return result


def _collect(text: str, place: str, depth: int, result: dict[str, str]) -> None:
    lambdas = 0
    for component in components(text):
        if component.is_lambda:
            lambdas += 1
            result[f"{place} lambda {lambdas}"] = component.text.rpartition("}")[0].rpartition(")")[
                2
            ]
            continue
        loop = _LOOP.fullmatch(component.base)
        base = (loop[1] or loop[2] or "strided") if loop else component.base
        # The last component is the name itself; scopes come before it.
        result[f"{place} name"] = base
        if depth < _DEEPEST:
            for at, argument in enumerate(component.arguments):
                _collect(argument.removeprefix("void "), f"{place} {at}", depth + 1, result)


def _differences(names: Mapping[str, _Parts]) -> Mapping[str, list[str]]:
    """The fewest parts that distinguish each name: first the place in which most differ, then the
    next among names that share it."""
    added: dict[str, list[str]] = {name: [] for name in names}
    waiting = [names]
    while waiting:
        same = waiting.pop()
        places = dict.fromkeys(place for parts in same.values() for place in parts)
        # Of equally good places the outermost, which comes before its inner ones.
        best = max(places, key=partial(_tells, same), default=None)
        if best is None:
            continue
        groups: dict[str, dict[str, _Parts]] = {}
        for name, parts in same.items():
            groups.setdefault(parts.get(best, ""), {})[name] = parts
        if len(groups) == 1:
            continue
        for part, group in groups.items():
            for name in group:
                added[name] += [part] if part else []
        waiting += [group for group in groups.values() if len(group) > 1]
    return added


def _tells(names: Mapping[str, _Parts], place: str) -> tuple[int, int, bool]:
    """How well the part at ``place`` distinguishes names: by the number of values, then by how few
    names lack it, then by whether it is short."""
    there = [parts.get(place, "") for parts in names.values()]
    return len(set(there)), -there.count(""), max(map(len, there)) <= _MOST_ADDED // 2


def _numbered(shorts: Mapping[str, str], width: int) -> Mapping[str, str]:
    """The names cut to ``width``; equal ones then get a number, all but the first."""
    taken: set[str] = set()
    distinct = {}
    for name, short in shorts.items():
        text, number = middle(short, width), 1
        while text in taken:
            number += 1
            ending = f" #{number}"
            text = f"{middle(short, width - len(ending))}{ending}"
        taken.add(text)
        distinct[name] = text
    return distinct


def shown_name(trace: Trace, row: int) -> str:
    """The name of an event; for a kernel the short one."""
    name = trace.name_of(row)
    is_kernel = trace.categories[int(trace.category[row])] == KERNEL
    return short_name(name) if is_kernel else name
