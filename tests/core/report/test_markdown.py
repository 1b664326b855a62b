"""A report as Markdown: what is shown of it is what the text says, whatever names hold."""

from __future__ import annotations

import html
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from perftui.experiments.journal import Proof, ProvenPair, write_proof
from perftui.experiments.trial_verdict import Outcome
from perftui.report.markdown import code, fenced, folded, plain, render, table
from perftui.report.report import make_report
from perftui.report.subject import load_subject
from perftui.run.layout import trials_of
from perftui.trace.text import printable
from tests.core.report.test_report import TRACE, write_run
from tests.tui.recorded import START
from tests.tui.recorded import write_run as write_recorded

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
NAMES = st.text(min_size=1, max_size=30).filter(lambda text: text.strip() == text)
MARKUP = (
    "a|b", "*a*", "_a_", "a_b", "<b>", "`a`", "``", "[a](b)", "![a](b)", "1. a", "12) a", "- a",
    "# a", "> a", "&amp;", "a\\|b", "@ada", "fixes #12", "~~a~~", "void f<int>(T*)", "\x1b[2J",
    "$x$",
)  # fmt: skip


def shown(markup: str) -> str:
    """The text that a reader sees, without tags that the text itself did not make."""
    found = html.unescape(re.sub(r"</?(code|p)>", "", markup))
    return found.strip("\n")


@pytest.mark.parametrize("text", MARKUP)
def test_markup_in_a_name_is_text(text: str) -> None:
    assert shown(READER.render(plain(text))) == printable(text)
    assert shown(READER.render(code(text))) == printable(text)


@given(NAMES)
def test_any_name_is_shown_as_it_is(text: str) -> None:
    assert shown(READER.render(plain(text))) == printable(text)
    assert shown(READER.render(f"x {code(text)}")) == f"x {printable(text)}"


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=4))
def test_a_table_has_its_cells_whatever_they_hold(rows: list[tuple[str, str]]) -> None:
    lines = table(("one", "two"), [(code(one), plain(two)) for one, two in rows], numbers=(1,))
    cells = [shown(cell) for cell in CELL.findall(READER.render("\n".join(lines)))]
    assert cells == [printable(text) for row in rows for text in row]


@given(st.lists(st.text(st.characters(exclude_characters="\n\r")), max_size=5))
def test_a_block_of_code_ends_where_its_text_does(lines: list[str]) -> None:
    text = "\n".join(lines)
    made = READER.render("\n".join([*fenced(text, "diff"), "after"]))
    assert made.endswith("</code></pre>\n<p>after</p>\n")


def test_a_call_to_a_person_and_the_number_of_an_issue_are_no_links() -> None:
    assert "@" not in plain("@torch.no_grad() fixes #12")
    assert "#" not in plain("fixes #12").replace("&#", "")


def test_nothing_is_folded_where_nothing_is() -> None:
    assert list(folded("Notes", [])) == []
    assert list(table(("a",), [])) == []


def of(path: Path) -> str:
    return render(make_report(load_subject(path)))


def test_a_report_names_finding_cost_fix_and_parts_that_sum(tmp_path: Path) -> None:
    text = of(write_run(tmp_path / "runs", "20260101-000000-train", window=TRACE.encode()))
    made = READER.render(text)
    assert made.count("<table>") == made.count("</table>") > 2
    assert "## train.py - exited with code 0" in text
    assert "### `input-in-main-thread`, critical: up to " in text
    assert "- **Fix** `loader-workers`: num_workers 0 -> 3" in text
    assert "| data loader wait | 21.00 ms | " in text
    steps = re.findall(r"^\| ([\w ]+) \| ([\d.]+) ms \| ([\d.]+) % \|$", text, re.MULTILINE)
    whole = [float(time) for name, time, _ in steps if name == "step"]
    parts = [float(time) for name, time, _ in steps if name != "step"]
    assert sum(parts) == pytest.approx(sum(whole), abs=1e-6)
    assert "`aten::mm`" in text
    assert "\x1b" not in text


def test_a_fix_stands_as_a_diff_with_what_was_measured(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(pictures):\n"
        "    return DataLoader(pictures, batch_size=128, shuffle=True)\n"
    )
    os.utime(script, ns=(START - 10**9, START - 10**9))
    root = write_recorded(tmp_path / "runs", script=script, loader_line=5)
    assert "Measured" not in of(root)
    pairs = (ProvenPair(2, 1),) * 6
    said = "2.10x faster (2.00 to 2.20)"
    proof = Proof("loader-workers", "num_workers 0 -> 4", Outcome.FASTER, said, pairs, 1, 2.1)
    write_proof(proof, trials_of(root))
    text = of(root)
    assert "  - Measured: **2.10x faster (2.00 to 2.20)**, 6 pairs of runs with the fix" in text
    assert "  ```diff\n" in text
    assert "  +    return DataLoader(pictures, batch_size=128, shuffle=True, num_workers=4" in text
    assert "language-diff" in READER.render(text)
