"""A demangled C++ name taken apart: its components, their template arguments, the lambdas in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

_OPENING, _CLOSING = "<({[", ">)}]"
_MARKS = re.compile(r"[<({\[>)}\]]|::|,")
_HEAD = re.compile(r"operator\(\)|[^<({\[]*")
_LAMBDA = re.compile(r"\{lambda|'lambda\d*'")

_SCALARS = {
    "float": "float",
    "double": "double",
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "int": "int",
    "unsigned int": "uint",
    "long": "long",
    "unsigned long": "ulong",
    "long long": "long",
    "unsigned long long": "ulong",
    "Half": "half",
    "half": "half",
    "half_t": "half",
    "__half": "half",
    "BFloat16": "bf16",
    "bfloat16_t": "bf16",
    "__nv_bfloat16": "bf16",
    "__hip_bfloat16": "bf16",
    "hip_bfloat16": "bf16",
    "tfloat32_t": "tf32",
    "float_e4m3_t": "fp8 e4m3",
    "float_e5m2_t": "fp8 e5m2",
    "Float8_e4m3fn": "fp8 e4m3",
    "Float8_e5m2": "fp8 e5m2",
    "__nv_fp8_e4m3": "fp8 e4m3",
    "__nv_fp8_e5m2": "fp8 e5m2",
    "complex<float>": "complex<float>",
    "complex<double>": "complex<double>",
}
INDICES = frozenset({"bool", "int8", "uint8", "int16", "int", "uint", "long", "ulong"})
"""Short names of types that count or address; values have them less often than others."""

_NAMESPACE = re.compile(r"(?:\w+|\{anonymous\})::")
_QUALIFIERS = re.compile(r"(?<![\w:])const |(?:const)?[&*]+$| const$")
_OPAQUE = re.compile(r"OpaqueType<(\d+)>")
_ANYWHERE = re.compile(
    r"(?<![\w])(?:float|double|\w*[Hh]alf(?:_t)?|\w*[Bb][Ff]loat16(?:_t)?)(?!\w)"
)


@dataclass(frozen=True)
class Component:
    """What stands between two ``::`` of a name, ``at`` or ``reduce_kernel<512, 1, Op>(Op)``."""

    text: str

    @cached_property
    def base(self) -> str:
        """Its name without arguments, and without the type that a function returns."""
        return self._head.strip().rpartition(" ")[2]

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """Its template arguments."""
        rest = self.text[len(self._head) :]
        return tuple(split(_inside(rest), ",")) if rest.startswith("<") else ()

    @property
    def is_lambda(self) -> bool:
        """Whether it is a function without a name."""
        return _LAMBDA.match(self.text) is not None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Types that a lambda is called with."""
        at = self.text.find("(")
        return tuple(split(_inside(self.text[at:]), ",")) if at >= 0 else ()

    @cached_property
    def _head(self) -> str:
        found = _HEAD.match(self.text)
        return found.group() if found else ""


def components(canonical_name: str) -> list[Component]:
    """The parts of a name as ``names.canonical`` spells it, outermost first."""
    return [Component(text) for text in split(canonical_name, "::")]


def split(text: str, separator: str) -> list[str]:
    """``text`` at each ``separator``, ``::`` or a comma, that is in no brackets; a name that was
    cut off is split as far as it goes."""
    found, begin, depth = [], 0, 0
    for match in _MARKS.finditer(text):
        mark = match.group()
        if mark == separator and not depth:
            found.append(text[begin : match.start()])
            begin = match.end()
        depth = max(0, depth + (mark in _OPENING) - (mark in _CLOSING))
    return [*found, text[begin:]]


def _inside(text: str) -> str:
    """What is in the brackets that ``text`` begins with."""
    depth = 0
    for match in _MARKS.finditer(text):
        depth += (match.group() in _OPENING) - (match.group() in _CLOSING)
        if not depth:
            return text[1 : match.start()]
    return text[1:]


def scalar(argument: str) -> str:
    """The short name of a scalar type, ``c10::BFloat16`` as ``bf16``, and of values that are only
    moved their size, ``2B``; empty for anything else."""
    plain = _QUALIFIERS.sub("", argument)
    bare = _NAMESPACE.sub("", plain)
    if found := _OPAQUE.fullmatch(bare):
        return f"{found[1]}B"
    return _SCALARS.get(plain) or _SCALARS.get(bare, "")


def scalars(arguments: Sequence[str]) -> Iterator[str]:
    """Short names of those arguments that are scalar types."""
    return filter(None, map(scalar, arguments))


def is_number(argument: str) -> bool:
    """Whether a template argument is a number, or true or false."""
    return argument.lstrip("-").isdecimal()


def floating_within(text: str) -> str:
    """The first floating type anywhere in ``text``; empty without one."""
    found = _ANYWHERE.search(text)
    return _SCALARS.get(found.group(), "") if found else ""
