"""Every link within the repository leads somewhere, each promise of docs/security.md names tests
that exist, and every page is on the site: it builds without a complaint, and loads nothing from
elsewhere."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from mkdocs.config import load_config

from tests.docs.documents import DOCUMENTS, ROOT
from tests.docs.links import anchors, links, slug, tokens

LINKED = (*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")


@pytest.mark.parametrize("document", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    assert [link for link in links(document) if not _leads(document, link)] == []


def _leads(document: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = (document.parent / name).resolve() if name else document
    if not anchor or not target.is_file():
        return target.exists()
    return _anchors(target).count(anchor) == 1


@cache
def _anchors(document: Path) -> list[str]:
    return anchors(document)


@pytest.mark.parametrize("link", ["b.md", "a.md#two", "#one-2", "a.md#twice"])
def test_a_link_that_leads_nowhere_is_noticed(link: str, tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("# `One` 1\n# One\n# Twice\n# Twice\n[x](a.md#one-1) [y](#one)\n")
    assert all(_leads(document, good) for good in links(document))
    assert not _leads(document, link)


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [("Where it's from: a/b", "where-its-from-ab"), ("num_workers 0 -> 2", "num_workers-0---2")],
)
def test_anchors_are_those_of_github(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in DOCUMENTS[1:]]
    named = _pages(load_config(str(ROOT / "mkdocs.yml"))["nav"])
    assert sorted(named) == sorted([*pages, "CONTRIBUTING.md", "CHANGELOG.md"])


def _pages(entry: object) -> list[str]:
    if isinstance(entry, dict):
        return _pages(list(entry.values()))
    if isinstance(entry, list):
        return [page for one in entry for page in _pages(one)]
    return [str(entry)]


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


SECURITY = (ROOT / "docs" / "security.md").read_text()
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def promises() -> dict[str, str]:
    """The text of each promise by its heading."""
    text = SECURITY.split("\n## Promises\n")[1].split("\n## ")[0]
    parts = re.split(r"^### (.+)$", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def functions_of(file: str) -> set[str]:
    path = ROOT / file
    tree = ast.parse(path.read_bytes()) if path.is_file() else ast.Module([], [])
    return {
        node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_each_promise_names_tests_and_every_test_that_is_named_exists() -> None:
    named = {promise: NAMED.findall(text) for promise, text in promises().items()}
    assert len(named) >= 8
    assert [promise for promise, tests in named.items() if not tests] == []
    every = NAMED.findall(SECURITY)
    assert [one for one in every if one[1] not in functions_of(one[0])] == []
