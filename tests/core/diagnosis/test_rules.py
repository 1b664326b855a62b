"""The list of rules, their words, their order, what they lack and ask the next window for, and the
file of findings."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui import format as fmt
from perftui.diagnosis.asking import question_to_ask, worth_asking
from perftui.diagnosis.diagnose import diagnosis, known_first, ranked
from perftui.diagnosis.ladder import LADDER
from perftui.diagnosis.model import READ_MORE, Diagnosis, Figure, Finding, Severity, write_findings
from perftui.diagnosis.rules import RULES
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.run.manifest import Status
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import (
    BF16,
    K,
    busy_with,
    diagnosed,
    reasons,
    synchronising,
    top_of,
)
from tests.core.diagnosis.test_costly_operators import MM, product
from tests.core.diagnosis.test_kernels import attending

TESTS = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("rule", sorted({row.id for row in (*RULES, *LADDER)}))
def test_each_rule_has_cases_that_name_it(rule: str) -> None:
    """One in which it fires and one in which it is silent, at least: that they do so is for their
    authors to see to."""
    assert TESTS.count(f'"{rule}"') >= 2


def test_a_rule_that_fails_takes_no_other_with_it(monkeypatch) -> None:
    failing = replace(RULES[0], lost=lambda facts: set().isdisjoint(facts, 1))
    monkeypatch.setattr("perftui.diagnosis.diagnose.RULES", (failing, *RULES[1:]))
    story = synchronising(70)
    assert top_of(story).rule == "sync-bound"
    assert "please report it: TypeError" in reasons(story)[RULES[0].id]


@pytest.mark.parametrize(
    ("sentence", "place", "headline"),
    [
        ("It waits.", Place(file="/a/train.py", line=3), "It waits, at train.py:3."),
        ("It waits at train.py:3.", Place(file="/a/train.py", line=3), "It waits at train.py:3."),
        ("It waits.", Place(operator="aten::mm"), "It waits."),
        ("It waits.", None, "It waits."),
    ],
)
def test_a_headline_names_the_line(sentence: str, place: Place | None, headline: str) -> None:
    assert Finding("rule", Severity.WARNING, sentence, place=place).headline == headline


UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (12, "12 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (512 << 20, "512 MiB"),
        ((1 << 30) - 1, "1.0 GiB"),
        (round(78.14 * (1 << 30)), "78.1 GiB"),
        (round(99.96 * (1 << 30)), "100 GiB"),
    ],
)
def test_a_size_is_said_with_three_digits(count, said) -> None:
    assert fmt.size(count) == said


@given(st.integers(0, 1 << 49))
def test_a_size_is_said_within_half_of_its_last_digit_and_never_as_1024(count) -> None:
    number, unit = fmt.size(count).split()
    assert float(number) < 1024
    digit = 0.1 if "." in number else 1.0
    assert abs(float(number) * UNITS[unit] - count) <= 0.501 * digit * UNITS[unit]


STEP = 10_000_000


def costing(rule: str, share: float, *parts: str) -> Finding:
    cost = round(share * STEP)
    return Finding(rule, Severity.CRITICAL, rule, (), cost, step_ns=STEP, steps=100, parts=parts)


def test_what_slows_every_operator_is_told_before_operators_that_it_slows() -> None:
    flag = costing("debug-flags", 0.36, "forward", "backward")
    loop = costing("loop-of-indexing", 0.37, "forward")
    update = costing("optimizer-single-tensor", 0.365, "optimizer")
    assert ranked([loop, flag, update]) == (update, flag, loop)
    # All their times are wrong until it is off, unless it is little beside them.
    large = costing("loop-of-indexing", 0.6, "forward")
    assert ranked([large, flag]) == (flag, large)
    # What more threads could gain at most counts half.
    threads, unused = costing("cpu-threads", 0.31), costing("unused-gradients", 0.3)
    assert ranked([threads, unused]) == (unused, threads)
    little = costing("debug-flags", 0.1, "forward")
    assert ranked([little, large]) == (large, little)


def test_memory_that_is_mapped_anew_stands_between_its_tensors_and_their_operators() -> None:
    faults, chain, copied, elsewhere = (
        replace(costing(rule, share), place=Place(file="model.py", line=line))
        for rule, share, line in (
            ("page-faults", 0.3, 7),
            ("memory-bound-elementwise", 0.4, 7),
            ("expanded-operand", 0.2, 7),
            ("expanded-operand", 0.2, 8),
        )
    )
    assert ranked([chain, faults, elsewhere]) == (faults, chain, elsewhere)
    assert ranked([faults, copied]) == (copied, faults)


def test_busy_operators_stand_before_hints_where_it_is_known_what_to_write() -> None:
    hint = replace(costing("attention-mask", 0.07), severity=Severity.INFO)
    bound = Finding("compute-bound", Severity.INFO, "The CPU is the limit.")
    known = replace(bound, facts=(Figure(READ_MORE, "torch.stft"),))
    assert known_first((hint, known)) == (known, hint)
    assert known_first((hint, bound)) == (hint, bound)
    cause = costing("page-faults", 0.3)
    assert known_first((cause, known)) == (cause, known)


LOADER = {"num_workers": 0, "file": "/p/train.py", "line": 3}


@pytest.mark.parametrize(
    "diagnosis",
    [
        Diagnosis(),
        diagnosis(Facts(make_run(), None)),
        diagnosis(Facts(make_run(phases={"input_wait": 5, "forward": 5}, loaders=(LOADER,)), None)),
    ],
)
def test_all_of_a_diagnosis_can_be_read_from_its_file(tmp_path, diagnosis) -> None:
    path = tmp_path / "findings.json"
    path.write_text("an older one")
    write_findings(path, diagnosis)
    written = msgspec.json.decode(path.read_bytes())
    assert written["schema"] == 1
    assert msgspec.convert(written["diagnosis"], Diagnosis) == diagnosis


HALF = "shapes, to tell whether attention could be faster (at most 20 % of the step)"
TEXT = "shapes, to tell how well its kernels use the card (at most 98 % of the step)"
"""The more valuable one of two questions."""

WINDOW = ("window", {"asked": ["shapes"]})


def facts_of(*events: Any, status: Status = Status.RUNNING, **profile: Any) -> Facts:
    """A run with the events and profile, whose window shows attention without shapes."""
    run = make_run(40, {"forward": 1}, status=status, events=events, profile=profile)
    return Facts(run, attending(None).analysis())


def test_a_rule_says_what_it_lacks_and_what_the_answer_is_worth() -> None:
    assert reasons(attending(None))["attention-mask"] == f"not recorded (--shapes): {HALF}"
    # Half of the attention is below the rule's limit, whatever the answer is.
    assert "attention-mask" not in reasons(attending(None, 90))


def test_modules_are_asked_for_after_sizes_and_then_named() -> None:
    blocks = ("nn.Module: a (Block)", 600), ("nn.Module: b (Block)", 380)
    (question,) = diagnosed(busy_with(K(BF16, 980, MM, args=product(980, 0.4)))).questions
    assert question.text.startswith("modules, to tell which modules take the GPU's time")
    story = busy_with(*(K(BF16, us, (name, *MM), args=product(us, 0.4)) for name, us in blocks))
    judged = diagnosed(story)
    assert judged.questions == ()
    assert "Of the forward pass: a (Block) 61 %, b (Block) 39 %." in judged.findings[0].sentence


@pytest.mark.parametrize(
    ("facts", "asks", "asking"),
    [
        (facts_of(), True, ""),
        (facts_of(asked=["shapes"]), False, f"asking: {TEXT}"),
        (facts_of(WINDOW, asked=["shapes"]), False, ""),
        (facts_of(asked=["syncs"]), False, "asking: synchronising calls"),
        (facts_of(status=Status.EXITED), False, ""),
        (facts_of(shapes=True), False, ""),
        (facts_of(first_step=5), False, ""),
        (facts_of(profile=False), False, ""),
        (facts_of(overhead=0.0), False, ""),
        (facts_of(("window", {"asked": 1}), asked=1), True, ""),
    ],
    ids=["open", "asked", "recorded", "other", "over", "had", "steps", "off", "free", "damaged"],
)
def test_a_question_is_asked_once_and_only_while_a_window_may_answer(
    facts: Facts, asks: bool, asking: str
) -> None:
    judged = diagnosis(facts)
    question = question_to_ask(judged, facts)
    assert (question.text if question else "") == (TEXT if asks else "")
    assert judged.asking == asking == judged.waits_for


def test_after_the_end_the_question_is_left_unless_a_window_was_to_answer_it() -> None:
    over, recorded = (facts_of(*events, status=Status.EXITED) for events in ((), (WINDOW,)))
    assert [one.text for one in worth_asking(diagnosis(over), over)] == [TEXT, HALF]
    assert worth_asking(diagnosis(over), over)[0].option == "--shapes"
    assert worth_asking(diagnosis(recorded), recorded) == []
    assert worth_asking(diagnosed(attending(None)), Facts(None)) == []
