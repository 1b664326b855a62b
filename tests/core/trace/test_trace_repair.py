from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.kineto.json_text import fields_before, fields_behind, repair

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# As a file spells it, and what it means.
SPELLED = st.sampled_from(
    [
        ('"C:\\dir\\x"', "C:\\dir\\x"),
        ('"a\\q, None, nan"', "a\\q, None, nan"),
        ('"\\u12"', "\\u12"),
        ('"\\u00e9\\n"', "é\n"),
        ('": nan, "', ": nan, "),
        ("N/A", None),
        ("-nan(ind)", None),
        ("[nan, -inf , 1, undefined]", [None, None, 1, None]),
        ("12", 12),
        ("[]", []),
    ]
)
SPACE = st.sampled_from(["", " ", "\n  "])


@pytest.mark.slow
@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_valid_text_stays_as_it_is(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    repaired = repair(text)
    assert repaired.text == text
    assert repaired.original(len(text)) == len(text)


@given(st.lists(st.tuples(SPELLED, SPACE), max_size=6), st.text(max_size=30))
def test_an_object_is_mended_and_its_end_is_known(
    fields: list[tuple[tuple[str, Any], str]], behind: str
) -> None:
    spelled = (f'"{key}":{space}{text}{space}' for key, ((text, _), space) in enumerate(fields))
    text = "{" + ",".join(spelled) + "}"
    repaired = repair(f"{text}, {behind}")
    value, end = json.JSONDecoder().raw_decode(repaired.text)
    assert value == {str(key): means for key, ((_, means), _) in enumerate(fields)}
    assert repaired.original(end) == len(text)


@given(st.text(alphabet='{}[],:"\\ naN/Ifu1x\n'))
def test_any_text_can_be_mended(text: str) -> None:
    repaired = repair(text)
    assert repaired.original(len(repaired.text)) == len(text)


@pytest.mark.parametrize(
    ("tail", "fields"),
    [
        (b"", {}),
        (b"}", {}),
        (b', "a": 1}\n', {"a": 1}),
        (b', "path": "C:\\x\\"y", "b": NaN', None),
        (b', "path": "C:\\x"}', {"path": "C:\\x"}),
        (b', "a": 1}}', None),
        (b"]}", None),
    ],
)
def test_fields_behind_the_events(tail: bytes, fields: dict[str, Any] | None) -> None:
    found = fields_behind(tail)
    if found is not None:
        found.pop("traceEvents", None)
    assert found == fields


@pytest.mark.parametrize("head", [b"[", b'{"traceEvents":[', b'{"a": "C:\\x", "traceEvents": ['])
def test_fields_before_the_events(head: bytes) -> None:
    assert fields_before(head) is not None
    assert fields_before(head[:-1] + b"!") is None
