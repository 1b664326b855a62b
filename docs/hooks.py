"""What mkdocs needs beyond its settings: files that lie beside docs are pages and pictures too.

Links are written for the repository. Those that lead out of docs, or from a file beside it into
docs, are turned into links of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS = "docs/"
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
PICTURES = ("screenshots/*.png", "screenshots/*.gif")

_TARGET = re.compile(r"(?<=\]\()[^)\s:#]+")
"""Where a link or a picture leads, without its anchor; no address of another host."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that lie beside docs, by their names in the repository."""
    pictures = (path for pattern in PICTURES for path in sorted(ROOT.glob(pattern)))
    for name in (*PAGES, *(path.relative_to(ROOT).as_posix() for path in pictures)):
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Point links at where their targets are on the site; others stay, for mkdocs to complain."""
    here = page.file.src_uri
    folder = posixpath.dirname(here if here in PAGES else DOCS + here)

    def on_site(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[0])).removeprefix(DOCS)
        if files.get_file_from_path(target) is None:
            return found[0]
        return posixpath.relpath(target, posixpath.dirname(here) or ".")

    return _TARGET.sub(on_site, markdown)
