"""Damaged files load as far as they can be read, or say why not, and never do anything else."""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perftui.trace.kineto.arguments import arguments_of
from perftui.trace.model import Trace, TraceError
from tests.core.trace.specimens import KINDS, LOCAL, Row, Specimen, damaged, opened
from tests.told import DAMAGED_FILES

pytestmark = pytest.mark.fuzz

FILES = int(os.environ.get("PERFTUI_MUTATIONS", "5000"))
"""In all: the end of the run tells how many were opened."""

WITH_ONE_EVENT_DAMAGED = FILES // 4
"""The others have damages anywhere."""

COLUMNS = ("start", "duration", "name", "category", "track", "correlation", "external_id", "bytes")
COLUMNS += ("parent", "depth")
Found = dict[int, Row]
"""By row of the trace; the number is -1 where the arguments do not hold it."""


def numbers_in(trace: Trace) -> dict[int, object]:
    """What the arguments of each row hold as its number.

    Read together, since each stretch of the file is recovered anew for every read; where that
    fails, those of the rows that can be read are wanted all the same."""
    try:
        pairs = arguments_of(trace, np.arange(len(trace)))
        together = {row: arguments.get("n") for row, arguments in pairs}
    except TraceError:
        return {row: number_of(trace, row) for row in range(len(trace))}
    last = len(trace) - 1
    assert number_of(trace, last) == together[last]
    return together


def number_of(trace: Trace, row: int) -> object:
    try:
        return trace.read_arguments(row).get("n")
    except TraceError:
        return None


def found_in(trace: Trace) -> Found:
    found = {}
    numbers = numbers_in(trace)
    for row in range(len(trace)):
        number = numbers[row]
        found[row] = Row(
            trace.name_of(row),
            int(trace.start[row]) + trace.origin,
            int(trace.duration[row]),
            number if isinstance(number, int) else -1,
        )
    return found


def check(trace: Trace, text: bytes) -> None:
    """What holds of every trace, whatever was done to its file."""
    assert {len(getattr(trace, column)) for column in COLUMNS} == {len(trace)}
    assert (trace.duration >= 0).all()
    assert int(trace.start.min()) == 0
    assert trace.name.max() < len(trace.names)
    assert trace.track.max() < len(trace.tracks)
    for warning in trace.warnings:
        if "fields around" in warning.message:
            assert warning.offset is None
        else:
            assert warning.offset is not None
            assert 0 <= warning.offset <= len(text) + 64


def intact(specimen: Specimen, text: bytes) -> list[Row]:
    """Rows whose events stand in the text as they were, with their neighbours."""
    return [
        row
        for number, row in enumerate(specimen.rows)
        if row is not None
        and 0 < number < len(specimen.rows) - 1
        and specimen.surrounded(number) in text
    ]


def is_part_of_an_event(specimen: Specimen, row: Row, text: bytes) -> bool:
    """Whether pieces came to lie so that an event holds this one, as valid JSON."""
    whole = text.decode("utf-8", "surrogateescape")
    piece = specimen.surrounded(specimen.rows.index(row)).decode()
    at = whole.index(piece)
    for brace in re.finditer(r"\{", whole[:at]):
        try:
            value, end = json.JSONDecoder(strict=False).raw_decode(whole, brace.start())
        except ValueError:
            continue
        if "ph" in value and end >= at + len(piece):
            return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_every_specimen_loads_whole(tmp_path: Path, kind: str) -> None:
    specimen = KINDS[kind]
    trace = opened(tmp_path / "trace", specimen.pack(specimen.text))
    assert trace.warnings == ()
    wanted = [row for row in specimen.rows if row]
    assert sorted(found_in(trace).values(), key=lambda row: row.number) == wanted


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damage_costs_no_event_far_from_it(
    tmp_path: Path, kind: str, record_property: Callable[[str, object], None]
) -> None:
    specimen = KINDS[kind]
    path = tmp_path / "trace"
    files = loaded = 0
    for seed in range((FILES - WITH_ONE_EVENT_DAMAGED) // len(KINDS)):
        raw, text = damaged(specimen, random.Random(f"{kind} {seed}"))  # noqa: S311 - damages
        kept = intact(specimen, text)
        trace = opened(path, raw)
        files += 1
        if trace is None:
            assert not kept or not text.startswith(specimen.head), (kind, seed)
            continue
        loaded += 1
        check(trace, text)
        missing = set(kept) - set(found_in(trace).values())
        assert all(is_part_of_an_event(specimen, row, text) for row in missing), (kind, seed)
    record_property(DAMAGED_FILES, files)
    assert loaded > FILES // len(KINDS) // 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_event_that_is_lost_is_said_with_its_place(
    tmp_path: Path, kind: str, record_property: Callable[[str, object], None]
) -> None:
    specimen = KINDS[kind]
    path = tmp_path / "trace"
    files = lost = 0
    for seed in range(WITH_ONE_EVENT_DAMAGED // len(KINDS)):
        chance = random.Random(f"one of {kind} {seed}")  # noqa: S311 - damages
        number = chance.choice([i for i, row in enumerate(specimen.rows) if row])
        begin, end = specimen.span(number)
        event = chance.choice(LOCAL)(specimen.events[number], chance)
        text = specimen.text[:begin] + event + specimen.text[end:]
        trace = opened(path, specimen.pack(text))
        files += 1
        assert trace is not None, (kind, seed)
        check(trace, text)
        rows = set(found_in(trace).values())
        others = {row for i, row in enumerate(specimen.rows) if row and i != number}
        assert others <= rows, (kind, seed)
        if len(trace) > len(others) or is_of_another_kind(event):
            continue
        lost += 1
        places = [warning.offset or 0 for warning in trace.warnings]
        assert any(begin <= place < begin + len(event) for place in places), (kind, seed)
    record_property(DAMAGED_FILES, files)
    assert lost > FILES // len(KINDS) // 200


def is_of_another_kind(event: bytes) -> bool:
    """Whether the damage made a flow, an instant or the like of the event, or of all its file."""
    try:
        fields = json.loads(event.decode("utf-8", "replace"), strict=False)
    except ValueError:
        return False
    return isinstance(fields, dict) and str(fields.get("ph")) in set("MBEIiCbnesftSTpFPNODVvRc(),")
