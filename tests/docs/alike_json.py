"""Whether JSON has the fields that a document shows, in their order and of their types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.docs.alike import VERDICTS, masked

ELISION = "..."
FREE = frozenset(
    {"verdict", "sentence", "confidence", "reason", "headline", "changes", "notes", "risks"}
)
"""Words that tell how busy the machine was, or how many cores it has."""
WITH_VERDICT = frozenset({"outcome", "next"})
"""Fields that another verdict changes."""


def parsed(shown: str) -> Any:
    """JSON of a document: lines may be folded, and ``...`` stands for what is left out."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', re.sub(r"\n *", " ", shown))
    # Strings are every other part.
    parts[::2] = map(_with_elisions, parts[::2])
    return json.loads("".join(parts))


def _with_elisions(between: str) -> str:
    """Between two strings ``...`` is a value, or a field before the next one or the last."""
    between = re.sub(r"([:\[]) *\.\.\.", r'\1"..."', between)
    between = re.sub(r"\.\.\. *,? *$", '"...":null,', between)
    return re.sub(r"\.\.\.(?= *})", '"...":null', between)


def differences(shown: Any, printed: Any) -> list[str]:
    """Where ``printed`` is unlike what is ``shown``."""
    free = FREE
    if isinstance(shown, dict) and isinstance(printed, dict):
        verdicts = [one.get("outcome") for one in (shown, printed)]
        if verdicts[0] != verdicts[1] and set(verdicts) <= set(VERDICTS):
            free = FREE | WITH_VERDICT
    return list(_differences(shown, printed, "", free))


def _differences(shown: Any, printed: Any, name: str, free: frozenset[str]) -> Iterator[str]:
    if shown in (ELISION, [ELISION]):
        return
    if name.rpartition(".")[2] in free:
        if type(shown) is not type(printed) and name not in WITH_VERDICT:
            yield f"{name}: {printed!r}"
    elif isinstance(shown, dict) and isinstance(printed, dict):
        yield from _fields(shown, printed, name, free)
    elif isinstance(shown, list) and isinstance(printed, list):
        # Findings of a busy machine come last.
        if len(shown) > len(printed) or (len(shown) < len(printed) and name != "findings"):
            yield f"{name}: {printed!r}"
        for at, (one, other) in enumerate(zip(shown, printed, strict=False)):
            yield from _differences(one, other, f"{name}.{at}", free)
    elif type(shown) is not type(printed) or not _is_alike(shown, printed):
        yield f"{name}: {printed!r}, not {shown!r}"


def _fields(
    shown: dict[str, Any], printed: dict[str, Any], name: str, free: frozenset[str]
) -> Iterator[str]:
    wanted = [key for key in shown if key != ELISION]
    found = [key for key in printed if key in shown or ELISION not in shown]
    if wanted != found:
        yield f"{name}: fields {found}, not {wanted}"
    for key in wanted:
        if key in printed:
            yield from _differences(shown[key], printed[key], f"{name}.{key}".lstrip("."), free)


def _is_alike(shown: Any, printed: Any) -> bool:
    if not isinstance(shown, str):
        return (isinstance(shown, int | float) and not isinstance(shown, bool)) or shown == printed
    pattern = re.escape(masked(shown)).replace(r"\.\.\.", "(?:.|\\n)*")
    return re.fullmatch(pattern, masked(printed)) is not None
