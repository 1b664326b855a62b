"""Batches of token ids that are mostly padding, which the model computes on."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Lost, Rule
from perftui.facts.data_loader.batch_place import batch_place
from perftui.facts.data_loader.padding import padding, skips_padding
from perftui.facts.fact import Facts, UnknownError
from perftui.facts.place import Place
from perftui.facts.source.source_search import matching_line
from perftui.facts.step.judged_step import judged_step

LEAST = 0.25
"""Share of padding from which on it is worth a word: batches of texts as they come, padded to the
longest of each, often have as much."""

_PADS = r"max_length|\bpadding=[\"'T]|\bpad_sequence|\bF\.pad\b|functional\.pad\b"


def _padded(facts: Facts) -> Lost | None:
    found = padding(facts)
    if found.share < LEAST:
        return None
    if skips_padding(facts):
        raise UnknownError("packed or nested sequences skip some of the computation on padding")
    judged = judged_step(facts)
    mean = judged.of.mean
    cost = round(found.share * judged.computing)
    return Lost(
        cost,
        judged.of,
        f"{fmt.percent(found.share)} of the tokens in a batch are padding: about "
        f"{fmt.duration(cost)} of each {fmt.duration(mean)} step is spent on it.",
        (
            Figure.share("of the tokens are padding", found.share, LEAST),
            Figure.share("beyond the longest row of each batch", found.spare_share),
            Figure("tokens in a row", round(found.tokens / found.rows), "count"),
            Figure(
                "of them not padding", round((found.tokens - found.padded) / found.rows), "count"
            ),
            Figure("batches checked", found.batches, "count"),
            Figure("computing", judged.computing, "ns"),
            Figure("mean step", mean, "ns"),
            Figure("steady steps", judged.of.count, "count"),
        ),
        place=batch_place(facts) or _place_by_text(facts),
        parts=tuple(part.name for part in judged.parts if part.computes),
        unproven="whether the model computes padding",
    )


def _place_by_text(facts: Facts) -> Place | None:
    line = matching_line(facts, _PADS, only=True)
    return Place(rank=facts.rank_number, file=line[0], line=line[1]) if line else None


PADDING = Rule(
    id="padding-waste",
    when="the training computes on batches of token ids that are mostly padding",
    explanation=(
        "All rows of a batch are padded to the longest, or to a fixed maximum, and the model "
        "computes on the padding too: a mask changes the result, not the work. Pad to the longest "
        'row of each batch in the collate function (padding="longest"), not to a maximum. If '
        "rows differ much in length, group rows of similar length with a batch sampler, or pack "
        "several into one row. A few batches of a run are checked. The cost is the share of "
        "padding applied to all computation: for attention it is higher, for embeddings lower."
    ),
    lost=_padded,
    limits=Limits(
        0.20,
        0.50,
        "An estimate, hence a higher limit than for what is certainly avoidable.",
        info=0.10,
    ),
    answer="pad to the longest row of each batch, bucket by length, or pack",
)
