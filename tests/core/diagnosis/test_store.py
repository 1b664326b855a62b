from __future__ import annotations

import msgspec
import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis
from perftui.diagnosis.store import write_findings
from perftui.facts.fact import Facts
from tests.core.diagnosis.runs import make_run

LOADER = {"num_workers": 0, "file": "/p/train.py", "line": 3}


@pytest.mark.parametrize(
    "diagnosis",
    [
        Diagnosis(),
        diagnosis(Facts(make_run(), None)),
        diagnosis(Facts(make_run(phases={"input_wait": 5, "forward": 5}, loaders=(LOADER,)), None)),
    ],
)
def test_all_of_a_diagnosis_can_be_read_from_its_file(tmp_path, diagnosis) -> None:
    path = tmp_path / "findings.json"
    path.write_text("an older one")
    write_findings(path, diagnosis)
    written = msgspec.json.decode(path.read_bytes())
    assert written["schema"] == 1
    assert msgspec.convert(written["diagnosis"], Diagnosis) == diagnosis
