"""Where the collection of real traces lies, and what others computed from each."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(
    os.environ.get("PERFTUI_TRACES", Path(__file__).parents[3] / ".." / "shared" / "traces")
)


@cache
def expected() -> list[dict[str, Any]]:
    """Every expected value; none where the collection is absent."""
    path = ROOT / "expected.json"
    listed: list[dict[str, Any]] = json.loads(path.read_text()) if path.is_file() else []
    return listed


@cache
def oracles() -> dict[str, list[dict[str, Any]]]:
    """By Kineto trace, the values that a slow and obvious program computed from it."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for entry in expected():
        if entry["quantity"].startswith("oracle."):
            grouped.setdefault(entry["trace"], []).append(entry)
    return grouped
