"""The source files of perftui as syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def trees(*words: str) -> Iterator[tuple[str, ast.Module]]:
    """Each file that holds one of these words, with its path in the repository."""
    wanted = tuple(word.encode() for word in words)
    for room in ("core/perftui", "tui/perftui_tui"):
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            content = path.read_bytes()
            if any(word in content for word in wanted):
                yield str(path.relative_to(REPOSITORY)), ast.parse(content)


def imports(tree: ast.Module) -> Iterator[str]:
    """Modules that are imported anywhere in the file, and names imported from them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
