"""What counts as the same output: numbers, runs and paths may differ, names and fields may not."""

import pytest

from tests.docs.alike import differences, parsed, unlike

SHOWN = """\
recording /home/ada/vision/.perftui/runs/20261126-234900-train-eccd
train.py: 57 steady steps, mean 29 ms
CRITICAL  The training waits 29 ms ...
1. input-bound (critical) at /home/ada/vision/train.py:11
...
end
"""
PRINTED = """\
recording /home/ada/vision/.perftui/runs/20270101-000000-train-0123
train.py: 1,057 steady steps, mean 1.5 s
CRITICAL  The training waits 1.5 s of each step
1. input-bound (critical) at /home/ada/vision/train.py:9
   one
   two
end
"""


def test_numbers_and_runs_may_differ_and_words_may_not() -> None:
    assert unlike(SHOWN, PRINTED) == ""
    assert unlike(SHOWN, PRINTED.replace("   one\n   two\n", "")) == ""
    for change in (("steady", "even"), ("end\n", ""), ("end\n", "end\nmore\n"), ("1. input", "1.")):
        assert unlike(SHOWN, PRINTED.replace(*change)) != ""


def test_a_busy_machine_says_more() -> None:
    shown = "fix: 2.00x faster (1.90 to 2.10)\n  risk: uses more memory\n  next: perftui apply\n"
    busy = "  the host was busy: make\n  risk: may slow the step: too few cores are idle\n"
    assert unlike(shown, shown.replace("  risk", f"{busy}  risk")) == ""
    slower = "fix: 0.70x slower (0.60 to 0.80)\n  risk: uses more memory\n"
    assert unlike(shown, slower) == ""
    unclear = "fix: 1.20x faster so far (0.90 to 1.50), not certain"
    assert unlike(shown, f"{unclear}\n  risk: uses more memory\n") == ""
    assert unlike(shown, "fix: 0.70x slower (0.60 to 0.80)\n") != ""
    assert unlike(shown, shown.replace("faster", "quicker")) != ""
    one = "1. input-bound (critical)\n"
    assert unlike(one, f"{one}2. busy-host (warning)\n   end the other programs\n") == ""
    assert unlike(f"{one}2. busy-host (warning)\n", one) != ""


WHOLE = '{"schema": 1, "a": {"b": [1.5], "c": null}, "key": "x@train.py:f", "findings": [{"d": 1}]}'


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (WHOLE, WHOLE.replace("1.5", "2.5").replace(":f", ":g.h")),
        (WHOLE, WHOLE.replace('{"d": 1}', '{"d": 1}, {"d": 1}')),
        ('{"schema": 1, ..., "findings": [...]}', WHOLE),
        ('{"schema": 1,\n  ...\n "findings": [{...}]}', WHOLE),
        ('{"schema":1,"a":...,...}', WHOLE),
        ('{"outcome": "faster", "next": []}', '{"outcome": "inconclusive", "next": null}'),
    ],
)
def test_fields_are_alike(shown: str, printed: str) -> None:
    assert differences(parsed(shown), parsed(printed)) == []


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (WHOLE, WHOLE.replace('"c"', '"other"')),
        (WHOLE, WHOLE.replace(', "c": null', "")),
        (WHOLE, WHOLE.replace("1.5", "1")),
        (WHOLE, WHOLE.replace("null", "1")),
        (WHOLE, WHOLE.replace("x@", "y@")),
        (WHOLE, WHOLE.replace('{"d": 1}', "")),
        (WHOLE, '{"a": {"b": [1.5], "c": null}, "schema": 1, "key": "x@train.py:f"}'),
        ('{"schema": 1, "b": 1, ...}', WHOLE),
        ('{"outcome": "faster", "next": []}', '{"outcome": "other", "next": []}'),
    ],
)
def test_fields_are_not_alike(shown: str, printed: str) -> None:
    assert differences(parsed(shown), parsed(printed)) != []
