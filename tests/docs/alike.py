"""Whether what a command prints, text or JSON, looks as a document shows it."""

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

HOME = "/home/ada/vision"
"""Where the runs of the documents are."""

VERDICTS = (
    *("faster", "slower", "no difference", "no clear difference", "inconclusive"),
    "not certain",
)
"""What a trial or a comparison may come to in place of what is shown, on a busy machine."""
_VERDICT = re.compile(rf"^(?:.*: )?(?:N )?({'|'.join(VERDICTS)})\b")
_REASON = re.compile(rf"^((?:N )?(?:{'|'.join(VERDICTS)})): .*")
_FOLLOWING = "  next: "

BUSY = (r"  the host was busy.*", r"  risk: may slow the step: too few cores are idle")
"""Lines that only a busy machine has."""
_BUSY = re.compile("|".join(BUSY))
_BUSY_RISK = "may slow the step: too few cores are idle; "
_FINDING = re.compile(r"N\. [\w-]+ \(")

_MASKS = (
    (r"\d{8}-\d{6}-[\w-]+?-[0-9a-f]{4}\b", "RUN"),
    (r"\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\.\.\.", "HASH"),
    (r"(?<=@train\.py:)[\w.]+", "FUNCTION"),
    (r"\d[\d,]*(?:\.\d+)?(?:x\b| ?(?:%|(?:ns|µs|ms|s|min|h|B|KiB|MiB|GiB)\b))?", "N"),
    (r"(?m)^(.*: )?(?:N (?:faster|slower)|as fast)(?: so far)?(?: \(N to N\))?, not certain",
     r"\1not certain"),
    (r"no clear difference \(N\)", "no clear difference"),
)  # fmt: skip


def masked(text: str) -> str:
    """``text`` with names in place of what differs from run to run."""
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text)
    return text


def unlike(shown: str, printed: str) -> str:
    """How ``printed`` differs in words from what is ``shown``; empty where it does not.

    ``...`` stands for anything: on a line of its own for lines, else for the rest of a line."""
    wanted = _lines(shown)
    found = _without_more_findings(_lines(printed), sum(map(bool, map(_FINDING.match, wanted))))
    if (one := _verdict(wanted)) and (other := _verdict(found)) and one != other:
        wanted, found = _without_verdict(wanted), _without_verdict(found)
    if re.fullmatch("".join(map(_pattern, wanted)), "".join(f"{line}\n" for line in found)):
        return ""
    return "\n".join(difflib.ndiff(wanted, found))


def _lines(text: str) -> list[str]:
    lines = masked(text.replace(_BUSY_RISK, "")).splitlines()
    return [_REASON.sub(r"\1: ", line).rstrip() for line in lines if not _BUSY.fullmatch(line)]


def _pattern(line: str) -> str:
    if line == "...":
        return r"(?:.*\n)*"
    return re.sub(r" +", " +", re.escape(line).replace(r"\ ", " ")).replace(r"\.\.\.", ".*") + r"\n"


def _without_more_findings(lines: list[str], number: int) -> list[str]:
    """A busy machine adds findings of its own, which come last."""
    starts = [at for at, line in enumerate(lines) if _FINDING.match(line)]
    return lines[: starts[number]] if len(starts) > number else lines


def _verdict(lines: list[str]) -> str | None:
    return next((found[1] for line in lines if (found := _VERDICT.match(line))), None)


def _without_verdict(lines: list[str]) -> list[str]:
    return [line for line in lines if not _VERDICT.match(line) and not line.startswith(_FOLLOWING)]


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
