"""Switches of torch that are tried on real trainings, and written into their sources."""

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments.rerun import Arrival, missed, overrides, rerun_launch
from perftui.facts.fact import Facts
from perftui.fixes.fix import option
from perftui.fixes.switches import anomaly_off, deterministic_off, onednn_on, threads
from perftui.run.manifest import Override
from perftui.run.reader import RunSnapshot
from tests.verify.scenarios.test_trials import output, recorded

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("start_sooner"), pytest.mark.slow]

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((8,), float(torch.get_num_threads()))


torch.manual_seed(0)
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)
torch.use_deterministic_algorithms(mode=True)
torch.backends.mkldnn.enabled = False
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for rows in DataLoader(Rows(), 2, num_workers=1):
    loss = model(rows).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("worker", int(rows.max()))
torch.set_num_threads(1)
print(torch.get_num_threads(), torch.is_anomaly_enabled(), end=" ")
print(torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.enabled)
with torch.autograd.detect_anomaly():
    print(torch.is_anomaly_enabled())
"""
ASKED = {"threads": 2, "anomaly": False, "deterministic": False, "onednn": True}


def said(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("worker", "1 ", "2 ", "True"))]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> RunSnapshot:
    """The training as it is, slowly: the use of cores is sampled once a second."""
    slow = TRAINING.replace("    optimizer.step()\n", "    optimizer.step()\n    time.sleep(0.1)\n")
    return recorded(tmp_path_factory.mktemp("before"), f"import time\n{slow}")


def test_switches_stay_as_they_are_tried_whatever_the_script_sets(
    before: RunSnapshot, tmp_path: Path
) -> None:
    assert said(output(before)) == ["worker 1", "1 True True False", "True"]
    tried = recorded(tmp_path, TRAINING, Override("switch", ASKED))
    # A worker of the loader computes on one thread all the same.
    assert said(output(tried)) == ["worker 1", "2 False False True"]
    (applied,) = overrides(Facts(tried))
    assert (applied.arrival, applied.values) == (Arrival.APPLIED, ASKED)
    assert missed(Facts(tried)) == ""


def test_a_switch_that_is_not_known_is_refused(tmp_path: Path) -> None:
    (applied,) = overrides(Facts(recorded(tmp_path, TRAINING, Override("switch", {"magic": 1}))))
    assert applied.arrival is Arrival.REFUSED
    assert applied.why == "magic: this version of perftui does not know the switch"


def test_switches_are_written_into_the_calls_that_set_them(
    before: RunSnapshot, tmp_path: Path
) -> None:
    fixes = (threads, anomaly_off, deterministic_off, onednn_on)
    more, anomaly, deterministic, onednn = [option(fix, Facts(before)) for fix in fixes]
    cores = str(more.override and more.override.arguments["threads"])
    assert _changed(more.patch) == [f"+torch.set_num_threads({cores})", "-torch.set_num_threads(1)"]
    assert _changed(anomaly.patch)[0] == "+torch.autograd.set_detect_anomaly(False)"
    assert _changed(deterministic.patch)[0] == "+torch.use_deterministic_algorithms(mode=False)"
    assert (onednn.patch, onednn.why_not) == (None, "remove the line that disables it")
    for one in (more, anomaly, deterministic):
        written = rerun_launch(before, one, is_written=True).expected
        patched = recorded(tmp_path, one.patch.after.decode(), expected=written)
        assert missed(Facts(patched)) == ""
        # What the training does where the change is expected and was not made.
        ineffective = replace(before, manifest=replace(before.manifest, patched=written))
        assert "had no effect" in missed(Facts(ineffective))


def _changed(patch: object) -> list[str]:
    lines = patch.diff().splitlines()[2:]
    return sorted(line for line in lines if line[:1] in "+-")
