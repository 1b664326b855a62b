"""float64 on the CPU, which the rule ``float64`` reports where no GPU computes."""

from __future__ import annotations

from perftui import format as fmt
from perftui.analysis.steps import BACKWARD, FORWARD, OPTIMIZER
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost
from perftui.facts.cpu.operators import cpu_operators, in_step, of_phases
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.settings import settings
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import at, line_of, line_with, place_of
from perftui.facts.source.source_search import matching_line

_NAMES = frozenset({"double", "float64", "DoubleTensor"})

_ADOPTING = (r"\.to\([^)]*\bdtype\b", r"\b(from_numpy|as_tensor)\(")


def float64_on_cpu(facts: Facts) -> Lost | None:
    """What a model takes whose parameters are float64: half of it, at least, is lost.

    Raises:
        UnknownError: the data types of its parameters were not recorded.
    """
    found, judged = cpu_operators(facts)
    known = settings(facts) if facts.run else None
    if known is None or known.parameters is None:
        raise UnknownError("the data types of the parameters were not recorded")
    elements = sum(one.elements for one in known.parameters)
    double = sum(one.elements for one in known.parameters if one.dtype == "float64")
    if not double:
        return None
    share = double / max(elements, 1)
    time = in_step(found, judged, of_phases(found, FORWARD, BACKWARD, OPTIMIZER))
    line = line_with(facts, _NAMES) or _adopting(facts) or line_of(facts, FORWARD)
    taken = round(share * time.ns)
    return Lost(
        # Half the bytes to move, and twice as many numbers in a register.
        taken // 2,
        judged.of,
        f"Operators compute in float64 for {fmt.part_of_step(taken, judged.of.mean)}{at(line)}: "
        "float32 takes half of that or less.",
        (
            Figure.share("of the parameters' elements in float64", share),
            Figure("mean step", judged.of.mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=place_of(facts, line),
        parts=time.parts,
    )


def _adopting(facts: Facts) -> LineShare | None:
    """The only line that takes over the data type of something else: NumPy's is float64."""
    found = (matching_line(facts, pattern, only=True) for pattern in _ADOPTING)
    known = next(filter(None, found), None)
    return LineShare(*known, "", "", 0) if known else None
