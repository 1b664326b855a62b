"""What is known of a training before it is judged: which cause was planted, and where."""

import ast
import enum
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

NEAR_LINES = 3
MARK = re.compile(r"#\s*planted\s*$")
HEALTHY_RULE = "healthy"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Kind(str, enum.Enum):
    """What must be said of a training."""

    PLANTED = "planted"
    """The first finding names the planted cause."""
    REPAIRED = "repaired"
    """Nothing above info names the cause that it had."""
    HEALTHY = "healthy"
    """Nothing above info."""


class Nearness(str, enum.Enum):
    """How a place that was said compares with the planted ones."""

    OK = "ok"
    NEAR = "near"
    WRONG = "wrong"


@dataclass(frozen=True)
class Planted:
    """Lines of one source file, any of which is the cause."""

    file: str
    """Without directories."""
    lines: frozenset[int] = frozenset()
    functions: tuple[range, ...] = ()
    """The lines of each function that holds a planted one, innermost only."""

    def nearness(self, file: str | None, line: int | None) -> Nearness:
        """``NEAR`` is the same function, or within three lines."""
        if file is None or line is None or Path(file).name != self.file:
            return Nearness.WRONG
        if line in self.lines:
            return Nearness.OK
        close = any(abs(line - planted) <= NEAR_LINES for planted in self.lines)
        inside = any(line in function for function in self.functions)
        return Nearness.NEAR if close or inside else Nearness.WRONG


@dataclass(frozen=True)
class Expected:
    """One training, and what a right diagnosis of it says."""

    name: str
    kind: Kind
    rules: tuple[str, ...] = ()
    """Any of them is right; of a repaired one, none of them may be said."""
    planted: Planted | None = None
    """None where no line is known."""
    gain: float | None = None
    """Times faster without the planted cause, as measured once."""


@dataclass(frozen=True)
class Training:
    """One file of ``trainings``."""

    path: Path
    expected: Expected
    source: str = ""
    """With the cause, and without the comments that tell how to mend it."""
    mended: str | None = None
    """Without the cause; None where the file does not tell how."""
    launcher: tuple[str, ...] = ()
    """Words that stand before the script; none where Python starts it."""


def mended(source: str) -> str:
    """``source`` as its comments ``# fixed:`` say that it is right: their text stands in place of
    the line below, or nothing does."""
    lines: list[str] = []
    instead: list[str] | None = None
    for line in source.split("\n"):
        told = re.match(r"(\s*)# fixed: ?(.*)", line)
        if told:
            text = [told[1] + told[2]] if told[2] else []
            instead = [*(instead or []), *text]
            continue
        lines += [line] if instead is None else instead
        instead = None
    return "\n".join(lines)


def without_marks(source: str) -> str:
    """``source`` without those comments."""
    return re.sub(r"[ \t]*# fixed:.*\n", "", source)


def read_training(path: Path) -> Training:
    """The training in ``path``, by its docstring and its marks.

    Raises ``ValueError`` where the docstring has no ``rule:`` line."""
    written = path.read_text()
    source = without_marks(written)
    told = dict(_told(ast.get_docstring(ast.parse(source)) or ""))
    rules = tuple(rule.strip() for rule in told.get("rule", "").split(",") if rule.strip())
    if not rules:
        raise ValueError(f"{path.name}: no 'rule:' line in the docstring")
    marked = [n for n, line in enumerate(source.splitlines(), 1) if MARK.search(line)]
    kind = Kind.HEALTHY if rules == (HEALTHY_RULE,) else Kind.PLANTED
    expected = Expected(
        path.stem,
        kind,
        () if kind is Kind.HEALTHY else rules,
        planted_in(path.name, source, marked) if marked else None,
        float(told["gain"]) if "gain" in told else None,
    )
    return Training(
        path,
        expected,
        source,
        None if source == written else mended(written),
        tuple(shlex.split(told.get("setup", ""))),
    )


def planted_in(file: str, source: str, lines: Iterable[int]) -> Planted:
    """The cause at ``lines`` of a file with this source, with all lines of their statements."""
    lines = frozenset(lines)
    nodes = list(ast.walk(ast.parse(source)))
    functions = [_lines(node) for node in nodes if isinstance(node, _FUNCTIONS)]
    around = ([each for each in functions if line in each] for line in sorted(lines))
    statements = (
        _lines(node) for node in nodes if isinstance(node, ast.stmt) and not hasattr(node, "body")
    )
    whole = (each for each in statements if not lines.isdisjoint(each))
    return Planted(file, lines.union(*whole), tuple(min(each, key=len) for each in around if each))


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _told(docstring: str) -> Iterator[tuple[str, str]]:
    for line in docstring.splitlines():
        if found := re.fullmatch(r"(rule|setup|gain):\s*(\S.*)", line.strip()):
            yield found[1], found[2].strip()
