"""The documentation as a site: it builds without a complaint, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, ROOT
from tests.docs.links import anchors, tokens

BLOCKS = {"table_open": "table", "list_item_open": "li", "fence": "pre", "code_block": "pre"}
"""Blocks that a page of the site must have as often as the document."""

_LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?((?:https?:)?//[^\"' >]*)"
    r"|<link\b[^>]*\bhref=[\"']?((?:https?:)?//[^\"' >]*)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", built]
    # Not --quiet: it silences the warnings that --strict counts.
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.slow
def test_the_site_shows_every_page_as_the_repository_does(site: Path) -> None:
    """Markdown of the site reads lists and tables by other rules than GitHub's."""
    for document in DOCUMENTS[1:]:
        name = document.relative_to(ROOT / "docs").with_suffix(".html")
        page = _article((site / name).read_text())
        shown = Counter(BLOCKS[one.type] for one in tokens(document) if one.type in BLOCKS)
        assert {tag: len(re.findall(f"<{tag}\\b", page)) for tag in shown} == shown, name
        assert re.findall(r"<h[1-6] id=\"([^\"]*)\"", page) == anchors(document), name


def test_pages_beside_docs_are_on_the_site(site: Path) -> None:
    assert (site / "CONTRIBUTING.html").is_file()
    assert (site / "screenshots" / "demo.gif").is_file()
    assert 'href="architecture.html#the-rooms"' in (site / "CONTRIBUTING.html").read_text()


def test_nothing_is_loaded_from_elsewhere_and_the_search_knows_each_finding(site: Path) -> None:
    pages = [path.read_text() for path in sorted(site.rglob("*.html"))]
    assert len(pages) > 20
    assert [found for page in pages for found in _LOADED.findall(page)] == []
    index = (site / "search" / "search_index.json").read_text()
    assert '"findings.html#launch-bound"' in index


def _article(page: str) -> str:
    return page.partition("<article")[2].partition("</article>")[0]
