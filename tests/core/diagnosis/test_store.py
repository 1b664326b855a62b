from __future__ import annotations

import pytest

from perftui.diagnosis.diagnose import diagnose
from perftui.diagnosis.evidence import gather
from perftui.diagnosis.model import Diagnosis
from perftui.diagnosis.store import FindingsError, read_findings, write_findings
from tests.core.diagnosis.runs import make_run

LOADER = {"num_workers": 0, "file": "/p/train.py", "line": 3}


@pytest.mark.parametrize(
    "diagnosis",
    [
        Diagnosis(),
        diagnose(gather(make_run(), None)),
        diagnose(gather(make_run(phases={"input_wait": 5, "forward": 5}, loaders=(LOADER,)), None)),
    ],
)
def test_what_is_written_is_read_back(tmp_path, diagnosis) -> None:
    path = tmp_path / "findings.json"
    write_findings(path, diagnosis)
    assert read_findings(path) == diagnosis


def test_no_file_is_no_diagnosis(tmp_path) -> None:
    assert read_findings(tmp_path / "findings.json") is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "not a diagnosis"),
        (b'{"diagnosis": {"progress": "\xff"}}', "not a diagnosis"),
        (b'{"diagnosis": 7, "schema": 99}', "newer perftui"),
        (b'{"diagnosis": {}, "schema": 99}', "newer perftui"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, content, reason) -> None:
    path = tmp_path / "findings.json"
    path.write_bytes(content)
    with pytest.raises(FindingsError, match=reason):
        read_findings(path)
