"""docs/verdicts.md tells what is said first of each real trace, and is held to that here."""

import re
from functools import cache
from pathlib import Path

import pytest

from perftui import format as fmt
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from perftui.facts.step.judged_step import Part, judged_step
from perftui.facts.step.trace_steps import trace_steps
from tests.verify.corpus.collection import ROOT, expected
from tests.verify.corpus.opened import opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.corpus,
    pytest.mark.skipif(not ROOT.is_dir(), reason="no collection of traces: set PERFTUI_TRACES"),
]

DOCUMENT = Path(__file__).parents[3] / "docs" / "verdicts.md"
LARGE = 0.3
"""Of the step, from which on the first finding has to name a part that computes nothing."""
SHOWN = 0.1
REFUSED = "refused"
UTILISATION = "utilisation"
RECOMMENDED = {
    "data loading": ("input-in-main-thread", "input-bound"),
    "communication": ("communication-exposed",),
    UTILISATION: (),
    "tensor cores": ("tensor-cores-unused", "matmul-fp32"),
    "backend": ("wrong-parallelism",),
}
"""Kinds of recommendations, and the rules that say the same."""
_WORDS = {
    "DataLoader": "data loading",
    "in communication": "communication",
    "low utilization": UTILISATION,
    "Tensor Cores": "tensor cores",
    "Nccl backend": "backend",
}


@cache
def rows() -> dict[str, tuple[str, ...]]:
    """By trace, the other cells of its row: parts of the step, what is said first, and why."""
    found: dict[str, tuple[str, ...]] = {}
    collection = ""
    for line in DOCUMENT.read_text().split("\n## Recommendations")[0].splitlines():
        collection = line.removeprefix("## ") if line.startswith("## ") else collection
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            found[f"{collection}/{cells[0].strip('`')}"] = tuple(cells[1:])
    return found


@cache
def facts_of(name: str) -> Facts:
    return Facts(None, opened(name).analysis)


def parts_of(facts: Facts) -> tuple[list[Part], int]:
    """The parts of the step, longest first, and their sum; those of a trace that is not believed
    as it shows them."""
    judged, trace = judged_step.or_none(facts), trace_steps.or_none(facts)
    shown = [Part(name, ns, computes=False) for name, ns in trace.breakdown.parts]
    parts = list(judged.parts) if judged else shown
    return sorted(parts, key=lambda part: -part.ns), max(sum(part.ns for part in parts), 1)


def told(name: str) -> tuple[str, str]:
    """The first two cells, as they follow from the program."""
    if name.endswith(".raw.gz"):
        return "no events", REFUSED
    facts = facts_of(name)
    parts, whole = parts_of(facts)
    large = [part for part in parts if part.ns >= SHOWN * whole]
    shares = (f"{part.name} {fmt.percent(part.ns / whole)}" for part in large)
    top = diagnosis(facts).top
    return ", ".join(shares), first(top) if top else "no verdict"


def first(finding: Finding) -> str:
    """Rule, share of the step, and place."""
    place = finding.place
    source = Path(place.file).name + f":{place.line}" if place and place.file else ""
    where = source or (place.operator if place else "") or ""
    share = f" {fmt.percent(finding.share)}" if finding.cost_ns else ""
    return f"`{finding.rule}`{share}" + (f", at `{where}`" if where else "")


def present() -> list[str]:
    return [name for name in rows() if (ROOT / name).is_file()]


@pytest.mark.parametrize("name", rows())
def test_the_row_of_a_trace_is_what_is_said_of_it(name: str) -> None:
    if not (ROOT / name).is_file():
        pytest.skip(f"{name} is not in the collection")
    breakdown, verdict, why = rows()[name]
    assert (breakdown, verdict) == told(name)
    assert why
    if verdict != REFUSED:
        check_parts(facts_of(name))


def check_parts(facts: Facts) -> None:
    """The largest part that computes nothing is named first, nothing costs more than the parts that
    it is about, and what is healthy computes."""
    found, (parts, whole) = diagnosis(facts).findings, parts_of(facts)
    # Start-up may be told of all that was recorded, beside the steps.
    of_steps = any(one.steps for one in found)
    for finding in (one for one in found if one.steps or not of_steps):
        # What waits cost is in part Python that another finding names.
        about = {*finding.parts, *(["python"] if finding.rule == "sync-bound" else [])}
        most = sum(part.ns for part in parts if part.name in about) / whole
        assert not finding.parts or finding.share <= most + 0.01, finding.sentence
    if not found or found[0].rule == "trace-incomplete":
        return
    lost = next((part for part in parts if not part.computes), None)
    if lost is not None and lost.ns >= LARGE * whole:
        assert lost.name in found[0].parts
    if found[0].severity is Severity.HEALTHY:
        assert sum(part.ns for part in parts if part.computes) >= 0.8 * whole


def test_every_trace_has_a_row() -> None:
    if len(present()) < len(rows()):
        pytest.skip("another collection than the one that is described")
    traces = re.compile(r"\.(json|json\.gz|raw\.gz|sqlite)$")
    described_apart = {path.parent for path in ROOT.rglob("truth.json")}
    there = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*")
        if traces.search(path.name) and path.parent not in described_apart
    ]
    assert {name for name in there if name != "expected.json"} == set(rows())


@pytest.mark.parametrize(
    ("workers", "file", "named"),
    [
        (0, "worker0.1623143089861.pt.trace.json.gz", True),
        (0, "worker0.1623143566756.pt.trace.json.gz", True),
        (4, "worker0.pt.trace.json.gz", False),
    ],
)
def test_the_loader_is_named_where_it_has_no_workers(workers: int, file: str, named: bool) -> None:
    """That is known of these, from how they were recorded."""
    name = f"kineto/tb_plugin/samples/resnet50_num_workers_{workers}/{file}"
    if not (ROOT / name).is_file():
        pytest.skip(f"{name} is not in the collection")
    found = {one.rule: one.severity for one in diagnosis(facts_of(name)).findings}
    assert found.get("input-in-main-thread") is (Severity.CRITICAL if named else None)


def recommended() -> dict[str, set[str]]:
    """By trace, the kinds of what the TensorBoard plugin recommends."""
    found: dict[str, set[str]] = {}
    for entry in expected():
        if entry["quantity"].endswith("recommendations"):
            kinds = {
                kind for text in entry["value"] for word, kind in _WORDS.items() if word in text
            }
            found.setdefault(entry["trace"], set()).update(kinds)
    return found


@pytest.mark.parametrize("kind", RECOMMENDED)
def test_a_recommendation_of_tensorboard_is_met_or_explained(kind: str) -> None:
    """Low utilisation by naming why the device idles."""
    section = DOCUMENT.read_text().partition("\n## Recommendations")[2]
    text = section.partition(f"\n### {kind.capitalize()}\n")[2].partition("\n### ")[0]
    explained = {name for name in re.findall(r"`([^`]+)`", text) if "/" in name}
    missed = set()
    for name in (name for name, kinds in recommended().items() if kind in kinds):
        rules = {finding.rule for finding in diagnosis(facts_of(name)).findings}
        if not (rules & set(RECOMMENDED[kind]) or (kind == UTILISATION and idles(name))):
            missed.add(name)
    assert missed == {name for name in explained if (ROOT / name).is_file()}


def idles(name: str) -> bool:
    """Whether a finding that warns says why the device does nothing."""
    return any(
        finding.severity >= Severity.WARNING and set(finding.parts) - {"gpu compute", "operators"}
        for finding in diagnosis(facts_of(name)).findings
    )
