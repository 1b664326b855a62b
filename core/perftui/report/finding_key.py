"""A name for a finding that stays the same from run to run."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from perftui.diagnosis.model import Finding
from perftui.facts.source.enclosing import function_at

LONGEST = 100
"""Letters of a key: names of kernels have hundreds."""


def finding_key(finding: Finding) -> str:
    """``rule@file:function``: the same for one cause in every run, however its lines have moved.

    Where the source is not to be read here the function is left out; a finding without a line is
    named by its operator or kernel, or by its rule alone. The end of a long one is a digest.
    """
    key = _key(finding)
    if len(key) <= LONGEST:
        return key
    return f"{key[:LONGEST]}~{sha256(key.encode('utf-8', 'replace')).hexdigest()[:8]}"


def _key(finding: Finding) -> str:
    place = finding.place
    if place is None or not (place.file or place.operator):
        return finding.rule
    if place.file is None:
        return f"{finding.rule}@{place.operator}"
    function = function_at(place.file, place.line) if place.line else ""
    return f"{finding.rule}@{Path(place.file).name}{function and ':'}{function}"
