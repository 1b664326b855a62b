"""Every link within the repository leads somewhere, and every page is in the site's navigation."""

from functools import cache
from pathlib import Path

import pytest
from mkdocs.config import load_config

from tests.docs.documents import DOCUMENTS, ROOT
from tests.docs.links import anchors, links, slug

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
