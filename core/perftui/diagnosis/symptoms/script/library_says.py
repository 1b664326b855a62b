"""Libraries print themselves what makes the training slow."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.place import Place
from perftui.facts.script.library_hints import LibraryHint, library_hints


def _hinted(facts: Facts) -> Lost | None:
    """What libraries print about speed; what it costs is not known, so the cost is 0."""
    hints = library_hints.or_none(facts)
    if hints is None:
        raise NotApplicableError
    if not hints:
        return None
    first, more = hints[0], len(hints) - 1
    others = f"; {fmt.several(more, 'more message')} like it" if more else ""
    return Lost(
        0,
        None,
        f'{first.library} reports in line {first.output_line} of the output: "{first.message}"'
        f"{others}.",
        tuple(
            Figure(f"{hint.library}, line {hint.output_line}", hint.message, place=_place(hint))
            for hint in hints
        ),
        place=_place(first),
        share=LIBRARY_SAYS.limits.info,
    )


def _place(hint: LibraryHint) -> Place | None:
    is_own = hint.file is not None and "-packages/" not in hint.file
    return Place(file=hint.file, line=hint.line) if is_own else None


LIBRARY_SAYS = Rule(
    id="library-says",
    when="PyTorch or another library reports in the output that something is slow",
    explanation=(
        "Libraries print advice once, at the start, where it is easily missed. It holds for many "
        "trainings, but not for all: the other findings show what it costs here."
    ),
    lost=_hinted,
    limits=Limits.of_hint(0.5, "Never more than a hint: the cost is not measured."),
    answer="follow the message",
)
