"""What holds of every diagnosis, whatever the rules say: costs within the step and its parts, no
idle time that another reading rules out, and the order."""

import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.diagnosis.diagnose import diagnosis, within_step
from perftui.diagnosis.model import Confidence, Diagnosis, Finding, Severity
from perftui.diagnosis.rule import BY_WINDOW
from perftui.diagnosis.rules import BY_ID, BY_NAME
from perftui.facts.fact import Facts
from perftui.facts.step.judged_step import (
    IDLE_PARTS,
    PYTHON_IN,
    UNSEEN_IDLE,
    JudgedStep,
    Part,
    judged_step,
    sampled_busy,
)
from perftui.facts.step.steps import StepBreakdown
from perftui.facts.step.trace_steps import trace_steps
from perftui.report.subject import SubjectError, load_subject
from tests.core.diagnosis.runs import GIB, make_run, telemetry_table
from tests.core.diagnosis.stories import CALL, Subject, training
from tests.core.diagnosis.test_findings import FINDINGS
from tests.core.diagnosis.test_limits import LIMITS
from tests.traces.builder import TraceBuilder, us
from tests.verify.corpus.collection import ROOT

RECORDINGS = ROOT.parent / "gpu" / "runs"
NO_TRACES = {"expected.json", "truth.json"}
ROUNDED = 0.0005
"""Of the step: parts of a window are scaled to the run's step in whole ns, each on its own."""

IDLES = re.compile(r"idles [^(]* \(([\d.]+) %\)")


def broken(facts: Facts) -> list[str]:
    """Which invariants the diagnosis of ``facts`` breaks."""
    said, judged = diagnosis(facts), judged_step.or_none(facts)
    return [
        *(one.reason for one in said.abstentions if "bug" in one.reason),
        *_order(said.findings),
        *_costs(said.findings, judged),
        *_evidence(said.findings, facts),
    ]


def _order(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        if finding.severity is Severity.CRITICAL and finding.step_ns and not finding.cost_ns:
            yield f"{finding.rule} is critical and costs nothing"
    first, *others = findings or [None]
    if first is None or first.severity is Severity.HEALTHY:
        return
    stands = [one for one in others if one.severity >= Severity.WARNING]
    limits = BY_NAME[first.rule].limits
    if first.severity < Severity.WARNING and limits and first.share < limits.warning:
        yield from (
            f"{first.rule} leads below its limit before {one.rule}"
            for one in stands
            if one.cost_ns or not BY_ID[one.rule].is_caution
        )
    if others and not first.cost_ns and first.rule in BY_ID and BY_ID[first.rule].is_caution:
        yield f"{first.rule} leads"


def _costs(findings: Sequence[Finding], judged: JudgedStep | None) -> Iterator[str]:
    yield from (f"{one.rule} costs more than the step" for one in findings if one.share > 1)
    for one in findings:
        shares = (float(text) for text in IDLES.findall(one.sentence))
        if any(share > 100 * one.share + 1 for share in shares) and one.cost_ns:
            yield f"{one.rule} claims {one.share:.1%}: {one.sentence}"
    if judged is None:
        return
    parts = {part.name: part.ns for part in judged.parts}
    claims = [
        (one, frozenset(parts) & _named(one) or frozenset(parts))
        for one in findings
        if one.cost_ns and one.step_ns == judged.of.mean
    ]
    for chosen in _unions([names for _, names in claims]):
        inside = [one for one, names in claims if names <= chosen]
        most = sum(parts[name] for name in chosen) + ROUNDED * judged.of.mean
        if sum(one.cost_ns for one in inside) > most:
            yield f"{[one.rule for one in inside]} cost more than {sorted(chosen)}"


def _named(finding: Finding) -> set[str]:
    return {name for part in finding.parts for name in (part, f"{PYTHON_IN}{part}")}


def _unions(sets: Sequence[frozenset[str]]) -> set[frozenset[str]]:
    """Every union of some of ``sets``: claims fit if those within each of them do (Hall)."""
    return reduce(lambda known, one: known | {one} | {other | one for other in known}, sets, set())


def _evidence(findings: Sequence[Finding], facts: Facts) -> Iterator[str]:
    window, busy = trace_steps.or_none(facts), sampled_busy.or_none(facts)
    judged = judged_step.or_none(facts)
    if facts.run is None or window is None or judged is None or not judged.on_device:
        return
    for one in findings:
        only_by_window = bool(one.parts) and set(one.parts) <= BY_WINDOW and one.cost_ns
        if only_by_window and window.steps <= 1 and one.confidence is Confidence.HIGH:
            yield f"{one.rule} is sure of a single profiled step"
    idle = sum(one.share for one in findings if one.parts and set(one.parts) <= set(IDLE_PARTS))
    if busy is not None and idle > 1 - busy + UNSEEN_IDLE + ROUNDED:
        yield f"{idle:.0%} idle are claimed, and samples show {busy:.0%} busy"


NAMES = [f"part {number}" for number in range(5)]
COSTS = st.integers(0, 100)


@st.composite
def claims(draw: st.DrawFn) -> tuple[JudgedStep, list[Finding]]:
    """Parts of a step, and findings that claim time of any of them, or of none that is known."""
    parts = {name: draw(COSTS) for name in draw(st.sets(st.sampled_from(NAMES), min_size=1))}
    mean = sum(parts.values())
    step = StepBreakdown(20, mean, tuple(parts.items()), mean, mean, mean, usual=mean)
    judged = JudgedStep(
        step, tuple(Part(*one, computes=False) for one in parts.items()), True, True
    )
    named = st.sets(st.sampled_from(NAMES)).map(tuple)
    of_step = st.builds(
        Finding, st.just("x"), st.just(Severity.INFO), st.just(""), cost_ns=COSTS, parts=named,
        step_ns=st.just(mean),
    )  # fmt: skip
    return judged, draw(st.lists(of_step, max_size=6))


@given(claims())
def test_costs_fit_the_step_and_no_more_is_cut_than_must_be(
    story: tuple[JudgedStep, list[Finding]],
) -> None:
    judged, findings = story
    parts = {part.name: part.ns for part in judged.parts}
    costs = within_step(findings, judged)
    assert all(0 <= cost <= one.cost_ns for one, cost in zip(findings, costs, strict=True))
    sets = [frozenset(parts) & set(one.parts) or frozenset(parts) for one in findings]
    room = {chosen: sum(parts[name] for name in chosen) for chosen in _unions(sets)}
    for count, (one, names, cost) in enumerate(zip(findings, sets, costs, strict=True)):
        before = list(zip(sets[:count], costs[:count], strict=True))
        # A union without its own parts is filled by those before it.
        most = min(
            room[chosen] - sum(cost for other, cost in before if other <= chosen)
            for chosen in room
            if names <= chosen
        )
        assert cost == min(one.cost_ns, most)


@st.composite
def stories(draw: st.DrawFn) -> Facts:
    """A few equal steps of anything that hosts and devices do, alone or as the window of a run that
    may be faster, and whose card may be sampled busy."""
    lasting = st.integers(1, 400).map(us)
    acts: dict[str, Callable[[TraceBuilder, int], object]] = {
        "late": lambda t, ns: t.op("aten::add", ns).launch("add", ns // 2, call=CALL),
        "ahead": lambda t, ns: t.launch("ampere_sgemm_128x64_tn", 3 * ns, call=CALL),
        "softmax": lambda t, ns: t.launch("softmax_warp_forward", ns, call=CALL),
        "python": lambda t, ns: t.frame("train.py(7): report", ns),
        "loader": lambda t, ns: t.data_wait(ns),
        "wait": lambda t, ns: t.op("aten::item").pause(us(1)).sync(ns).close(),
        "allocate": lambda t, ns: t.malloc(ns),
        "on the CPU": lambda t, ns: t.op("aten::sort", ns),
    }
    acting = st.lists(st.tuples(st.sampled_from(sorted(acts)), lasting), min_size=1, max_size=8)
    did = draw(acting)

    def step(t: TraceBuilder) -> None:
        t.step()
        for name, ns in did:
            acts[name](t, ns)
        t.end()

    story = training().repeat(draw(st.integers(1, 4)), step)
    if draw(st.booleans()):
        return Facts(None, story.analysis())
    phases = {name: draw(st.floats(0.01, 2)) for name in ("input_wait", "forward", "other")}
    card = {"utilization": draw(st.integers(0, 100)), "memory_used": GIB, "memory_total": 9 * GIB}
    sampled = telemetry_table(20, **{f"gpu0.{name}": float(value) for name, value in card.items()})
    run = make_run(phases=phases, telemetry=sampled, gpus=("H200",), reserved=GIB)
    return Facts(run, story.analysis())


@settings(max_examples=60, deadline=None)
@given(stories())
def test_no_story_breaks_them(facts: Facts) -> None:
    assert broken(facts) == []


TOLD = [
    *((f"{one.rule} {number}", one.story) for number, one in enumerate(FINDINGS)),
    *(
        (f"{rule} {value}", lambda story=story, value=value: story(value))
        for rule, story, said in LIMITS
        for value in said
    ),
]
CHUNKS = 8


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_story_of_a_rule_breaks_them(chunk: int) -> None:
    breaks = {
        name: broken(facts) for name, story in TOLD[chunk::CHUNKS] if (facts := _facts(story()))
    }
    assert not {name: told for name, told in breaks.items() if told}


def _facts(subject: Subject) -> Facts | None:
    if isinstance(subject, Diagnosis):
        return None
    if isinstance(subject, TraceBuilder):
        return Facts(None, subject.analysis())
    return subject if isinstance(subject, Facts) else Facts(subject)


@pytest.mark.slow
@pytest.mark.skipif(not ROOT.is_dir(), reason="no collection of traces: set PERFTUI_TRACES")
def test_no_real_trace_breaks_them() -> None:
    traces = [
        path for path in ROOT.rglob("*") if re.search(r"\.(json|json\.gz|sqlite)$", path.name)
    ]
    assert not _broken_of(path for path in traces if path.name not in NO_TRACES)


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="no recordings beside the collection of traces")
def test_no_recording_of_a_gpu_breaks_them(tmp_path: Path) -> None:
    for archive in sorted(RECORDINGS.glob("*.tar.xz")):
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path, filter="data")
    manifests = sorted(tmp_path.rglob("run.json"))
    assert len(manifests) > 1
    assert not _broken_of(manifest.parent for manifest in manifests)


def _broken_of(paths: Iterable[Path]) -> dict[str, list[str]]:
    breaks = {}
    for path in paths:
        with suppress(SubjectError):
            breaks[str(path)] = broken(load_subject(path).facts)
    return {name: told for name, told in breaks.items() if told}
