"""Whether what a command prints looks as a document shows it."""

from __future__ import annotations

import difflib
import re

HOME = "/home/ada/vision"
"""Where the runs of the documents are."""

VERDICTS = (
    *("faster", "slower", "no difference", "no clear difference", "inconclusive"),
    *("not clear", "not yet known"),
)
"""What a trial or a comparison may come to in place of what is shown, on a busy machine."""
_VERDICT = re.compile(rf"^(?:.*: )?(?:N )?({'|'.join(VERDICTS)})\b")
_REASON = re.compile(rf"^({'|'.join(VERDICTS)})( N)?: .*")
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
)


def masked(text: str) -> str:
    """``text`` with names in place of what differs from run to run."""
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text)
    return text


def unlike(shown: str, printed: str) -> str:
    """How ``printed`` differs in words from what is ``shown``; empty where it does not.

    ``...`` stands for anything: on a line of its own for lines, else for the rest of a line.
    """
    wanted = _lines(shown)
    found = _without_more_findings(_lines(printed), sum(map(bool, map(_FINDING.match, wanted))))
    if (one := _verdict(wanted)) and (other := _verdict(found)) and one != other:
        wanted, found = _without_verdict(wanted), _without_verdict(found)
    if re.fullmatch("".join(map(_pattern, wanted)), "".join(f"{line}\n" for line in found)):
        return ""
    return "\n".join(difflib.ndiff(wanted, found))


def _lines(text: str) -> list[str]:
    lines = masked(text.replace(_BUSY_RISK, "")).splitlines()
    return [_REASON.sub(r"\1\2: ", line).rstrip() for line in lines if not _BUSY.fullmatch(line)]


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
