"""The page says what the report says, whatever names hold, legibly, and loads nothing."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftui.analysis.model import GapCause
from perftui.report.html.page import POLICY, cleaned, environment, number, render
from perftui.report.html.timeline import hue
from perftui.report.report import make_report
from perftui.report.subject import Subject, load_subject
from perftui.report.wording import breakdown_rows, gain_of
from perftui.run.columns import PHASES
from tests.core.diagnosis.runs import run_with, stack_table
from tests.core.report.html.pages import NASTY, cells, gpu_trace, of, read, run_with_fix, section
from tests.tui.test_ranks_screen import write_run_of_ranks

SHEET = environment().get_template("style.css").render()
PARTS = environment().get_template("parts.html").module


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_with_fix(tmp_path)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return gpu_trace(tmp_path / "trace.json")


def test_the_head_names_the_run_and_a_fix_stands_with_its_diff(run: Path) -> None:
    _, page = of(run)
    assert page.only("h1").text == "train.py"
    about = page.only("dl", "about").text
    assert "20231114-221320-train, exited with code 0" in about
    assert "2023-11-14 22:13 UTC" in about
    assert "node1, 16 cores, no GPU" in about
    assert "PyTorch 2.13.0" in about
    fix = next(page.every("div", "fix"))
    assert fix.text.startswith("Fix loader-workers: num_workers 0 -> 4")
    assert "2.10x faster (2.00 to 2.20), 6 pairs of runs with the fix and without" in fix.text
    (added,) = fix.every("span", "added")
    (removed,) = fix.every("span", "removed")
    assert removed.text == "-\treturn DataLoader(pictures, batch_size=128, shuffle=True)"
    assert added.text.startswith("+\treturn DataLoader(pictures, batch_size=128, shuffle=True, num")


def test_verdict_findings_and_what_was_not_judged_are_those_of_the_report(run: Path) -> None:
    report, page = of(run)
    first = report.diagnosis.findings[0]
    assert page.only("p", "verdict").text == f"{first.severity.name} {first.headline}"
    cards = list(page.every("article"))
    assert len(cards) == len(report.diagnosis.findings) > 0
    for card, finding in zip(cards, report.diagnosis.findings, strict=True):
        assert finding.severity.name.lower() in card.kinds
        gain = gain_of(finding, report)
        assert card.only("header").text == f"{finding.severity.name}{finding.rule}{gain}"
        assert finding.headline in card.text
        labels = [row[0] for row in cells(card.only("table"))]
        assert labels == [figure.shown_label for figure in finding.facts]
    told = section(page, "Not judged").text
    assert report.diagnosis.abstentions
    for one in report.diagnosis.abstentions:
        assert one.rule in told
        assert one.reason in told
    assert all(note in section(page, "Notes").text for note in report.notes)


def test_parts_sum_to_the_step_and_tables_hold_the_rows_of_the_report(trace: Path) -> None:
    report, page = of(trace)
    (found,) = report.breakdowns
    part = section(page, "Where the time goes")
    shown = [(name, *map(_number, values)) for name, *values in cells(part.only("table"))]
    assert shown == [(name, ns / 100, share / 10) for name, ns, share in breakdown_rows(found)]
    *parts, (_, whole, percent) = shown
    assert sum(time for _, time, _ in parts) == pytest.approx(whole, abs=1e-6)
    assert sum(share for *_, share in parts) == pytest.approx(percent, abs=1e-6) == 100
    boxes = [
        tuple(float(one.attributes[at]) for at in ("x", "width")) for one in part.every("rect")
    ]
    at = 0.0
    for (left, width), ns in zip(boxes, [ns for _, ns in found.parts if ns], strict=True):
        assert left == pytest.approx(at, abs=0.02)
        assert width == pytest.approx(10_000 * ns / found.mean, abs=0.02)
        at = left + width
    assert at == pytest.approx(10_000, abs=0.02)
    operators = cells(section(page, "Operators").only("table"))
    assert [row[1] for row in operators] == [f"{row.calls:,}" for row in report.ops[:10]]
    assert operators[0][0].startswith("aten::gemm")
    kernels = cells(section(page, "Kernels").only("table"))
    assert len(kernels) == len(report.kernels) == 2
    assert kernels[0] == ["gemm75 %", "5", "15 ms"]


def test_ranks_stand_side_by_side(tmp_path: Path) -> None:
    _, page = of(write_run_of_ranks(tmp_path, 0, 0, 30))
    rows = cells(section(page, "Ranks").only("table"))
    assert [row[0] for row in rows] == ["rank 0", "rank 1", "rank 2 30 ms behind the others"]
    assert [row[1:] for row in rows] == [
        ["140 ms", "50 ms"],
        ["140 ms", "50 ms"],
        ["140 ms", "80 ms"],
    ]


def test_one_process_has_no_table_of_ranks(run: Path) -> None:
    assert "Ranks" not in [one.text for one in of(run)[1].every("h2")]


@pytest.mark.parametrize("story", ["run", "trace"])
def test_nothing_is_loaded_and_nothing_runs(story: str, request: pytest.FixtureRequest) -> None:
    text = render(make_report(load_subject(request.getfixturevalue(story))))
    page = read(text)
    assert "http" not in text.replace("http-equiv", "")
    assert not re.search(r"url\(|@import|\bsrc=|javascript:", text)
    assert POLICY in [one.attributes.get("content") for one in page.every("meta")]
    tags = {one.tag for one in page.every()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "a", "base"}
    assert not [one for node in page.every() for one in node.attributes if one.startswith("on")]


@pytest.mark.slow
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.one_of(st.just(NASTY), st.text(min_size=1, max_size=40)))
def test_a_name_is_text_wherever_it_stands(tmp_path: Path, name: str) -> None:
    report, page = of(gpu_trace(tmp_path / "trace.json", name))
    (operator,) = (row.name for row in report.ops if row.name.startswith("aten::"))
    assert cleaned(operator) in [one.text for one in section(page, "Operators").every("code")]
    boxes = section(page, "Timeline").every("title")
    assert any(one.text.startswith(f"{cleaned(operator)}, ") for one in boxes)
    assert not [one for one in page.every() if one.tag in ("script", "img")]


def test_a_long_name_makes_no_large_file(tmp_path: Path) -> None:
    report = make_report(load_subject(gpu_trace(tmp_path / "trace.json", "k" * 20_000)))
    assert len(render(report).encode()) < 500_000


def _number(cell: str) -> float:
    return float(cell.split()[0])


def test_lines_of_threads_stand_with_their_shares() -> None:
    stacks = stack_table((0, 8_000, "/home/a/train.py", 8), (8_000, 2_000, "", -1))
    run = run_with(stacks)
    page = read(render(make_report(Subject(run.root, run))))
    part = section(page, "Where the main thread is, over the steady steps (about 100 samples)")
    assert cells(part.only("table")) == [
        ["train.py:880 %", "main"],
        ["no line of yours (torch/x.py:-1 forward)20 %", "main"],
    ]


TEXTS = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "</script><img src=x onerror=alert(1)>",
            "</title></style></code>",
            '"><svg onload=alert(1)>',
            "&lt;b&gt; &amp;amp; &#60;",
            "{{ 7 * 7 }}{% for x in y %}",
            "<!-- ",
            "]]>",
            "<![CDATA[",
            "void f<int>(T const&)",
            "\x1b[2J\x00\u202eabc\ud800",
        ]
    ),
)


@given(TEXTS, TEXTS)
def test_a_page_gives_back_text_and_attribute(text: str, attribute: str) -> None:
    page = read(PARTS.name(text, attribute))
    code = page.only("code")
    assert code.text == cleaned(text)
    assert code.attributes == ({"title": cleaned(attribute)} if text != attribute else {})
    assert [one.tag for one in page.every()] == ["code"]


@given(TEXTS)
def test_no_control_code_is_left_but_tabs(text: str) -> None:
    page = str(PARTS.name(text, f"{text}."))
    page.encode()
    left = {char for char in page if not char.isprintable()} - {"\t", " "}
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in left)
    assert not left & set("\u2028\u2029\u202e\u2066\u200b\ufeff")


@given(st.floats(-1e6, 1e6))
def test_a_coordinate_is_right_to_a_hundredth(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, abs=0.00501)
    assert "e" not in number(value)


LEGIBLE = 4.5
"""Contrast that WCAG asks for of text."""

PLAIN = ("ink", "dim", "bad", "warn", "good", "note")


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` or ``#rgb``, as WCAG defines it."""
    digits = colour.removeprefix("#")
    digits = digits if len(digits) == 6 else "".join(2 * one for one in digits)
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def variables(dark: bool) -> dict[str, str]:
    light_block, dark_block = re.findall(r":root\{([^}]*)\}", SHEET)
    return dict(re.findall(r"--([a-z]+):(#[0-9a-f]+);", dark_block if dark else light_block))


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_on_every_colour(dark: bool) -> None:
    known = variables(dark)
    for name in PLAIN:
        assert contrast(known[name], known["paper"]) >= LEGIBLE, name
        assert contrast(known[name], known["card"]) >= LEGIBLE, name
    for name in ("added", "removed"):
        assert contrast(known["ink"], known[name]) >= LEGIBLE, name
    hues = set(re.findall(r"\.c-([a-z]+)\{", SHEET))
    assert len(hues) > 8
    for name in (*hues, "bad", "warn", "good", "note"):
        assert contrast(known["on"], known[name]) >= LEGIBLE, name


def test_each_part_of_a_step_has_a_colour_of_its_own() -> None:
    assert len({hue(phase) for phase in PHASES}) == len(PHASES)
    causes = [one.value for one in GapCause if one is not GapCause.INITIALISATION]
    assert len({hue(cause) for cause in causes}) >= len(causes) - 1


def test_the_sheet_names_no_file() -> None:
    assert "url(" not in SHEET
    assert "@import" not in SHEET
