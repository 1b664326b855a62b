"""What a diagnosis lacks, what that is worth, and what the next window is asked for."""

from typing import Any

import pytest

from perftui.diagnosis.asking import question_to_ask, worth_asking
from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.run.manifest import Status
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import BF16, K, busy_with, diagnosed, reasons
from tests.core.diagnosis.test_costly_operators import MM, product
from tests.core.diagnosis.test_kernels import attending

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
