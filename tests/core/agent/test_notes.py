"""What is noted of a training: how it is set up, what it saves and compiles, and its data loaders:
where their data lies, and each of them once."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from perftui.agent.dataloader import loaders as datasets
from perftui.agent.hooks.call_site import CallSite
from perftui.agent.recording.settings import Setup, devices
from perftui.agent.recording.side_notes import LEAST_SAVING_NS, Saves
from tests.core.agent.conftest import Run, Train

TRAINING = """
import gc, os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
{before}
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
model[2].bias.requires_grad_(False)
optimizer = torch.optim.AdamW(
    [{{"params": model[0].parameters()}}, {{"params": model[2].parameters(), "lr": 1e-2}}],
    foreach=True,
)
loader = DataLoader(TensorDataset(torch.rand(32, 8)), batch_size=4)
before = set(sys.modules)
for (x,) in loader:
    with {around}:
        loss = {call}(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
new = sorted(name for name in set(sys.modules) - before if not name.startswith("_perftui"))
print(f"{{loss.item():.6f}}", torch.rand(1).item(), torch.cuda.is_initialized(), new)
"""


def training(before: str = "", around: str = "torch.enable_grad()", call: str = "model") -> str:
    return TRAINING.format(before=before, around=around, call=call)


def settings(run: Run) -> dict[str, Any]:
    assert run.notes("error") == []
    (note,) = run.notes("settings")
    return note


@pytest.mark.slow
@pytest.mark.subprocess
def test_it_is_reported_once_how_a_training_is_set_up(unnoticed: Train) -> None:
    before = """
torch.set_num_threads(2)
torch.set_float32_matmul_precision("high")
torch.backends.cudnn.benchmark = True
torch.use_deterministic_algorithms(True, warn_only=True)
gc.set_threshold(1000, 20, 30)
gc.freeze()
os.environ.update(TORCHDYNAMO_VERBOSE="1", OMP_NUM_THREADS="3", API_TOKEN="secret")
"""
    # Nothing is frozen before the script does it.
    run = unnoticed(training(before), options={"profile": False}, fresh=True)
    assert run.code == 0
    told = settings(run)
    assert told["threads"]["intra_op"] == 2
    assert told["environment"]["TORCHDYNAMO_VERBOSE"] == "1"
    assert told["environment"]["OMP_NUM_THREADS"] == "3"
    assert "secret" not in str(told)
    assert told["matmul"] == {
        "float32_precision": "high",
        "allow_tf32": True,
        "cudnn_allow_tf32": True,
    }
    assert told["cudnn"] == {"enabled": True, "benchmark": True, "deterministic": False}
    assert told["modes"] == {
        "deterministic": True,
        "deterministic_warns_only": True,
        "anomaly": False,
        "grad": True,
        "default_dtype": "float32",
    }
    assert told["threads"]["python"] == 1
    assert told["cores"] == {"affinity": len(os.sched_getaffinity(0)), "installed": os.cpu_count()}
    assert told["mkldnn"]["enabled"] is True
    assert set(told["attention"].values()) == {True}
    assert told["build"]["torch"] == version("torch")
    assert told["devices"] is None
    assert told["gc"]["thresholds"] == [1000, 20, 30]
    assert told["gc"]["enabled"]
    assert told["gc"]["frozen"] > 0
    assert (told["wrappers"], told["compiled"], told["autocast"]) == ([], False, None)
    (optimizer,) = told["optimizers"]
    assert optimizer["name"] == "torch.optim.adamw.AdamW"
    assert optimizer["file"].endswith("train.py")
    line = training(before).splitlines().index("optimizer = torch.optim.AdamW(") + 1
    assert (optimizer["line"], optimizer["end_line"]) == (line, line + 3)
    assert [optimizer[name] for name in ("fused", "foreach", "capturable")] == [None, True, False]
    assert (optimizer["groups"], optimizer["parameters"]) == (2, 4)
    (floats,) = told["parameters"]
    assert floats == {
        "dtype": "float32",
        "device": "cpu",
        "tensors": 4,
        "trained": 3,
        "elements": 81,
        "tables": 0,
        "unused": 0,
        "unused_elements": 0,
    }


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize(("runs", "unused"), [("teacher(x)", 2), ("teacher(x).detach() * 0", 0)])
def test_settings_are_noted_again_after_pretraining(train: Train, runs: str, unused: int) -> None:
    source = f"""
import sys, time, torch
looks = next(sys.modules[name] for name in sys.modules if name.endswith(".side_notes"))
looks.LEAST_PAUSE_NS, looks.TIMES_COST, looks.PART = 0, 0, 1 << 40
def fit(model, steps, loss):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.rand(4, 8)
        loss(x).backward()
        optimizer.step()
        model.zero_grad() if steps > 9 else None
        time.sleep(0.02)
teacher, student = torch.nn.Linear(8, 1), torch.nn.Linear(8, 1)
fit(teacher, 4, lambda x: teacher(x).sum())
fit(student, 60, lambda x: (student(x) - {runs}).square().sum())
"""
    *_, told = train(source).notes("settings")
    (floats,) = told["parameters"]
    assert (floats["tensors"], floats["unused"]) == (4, unused)


@pytest.mark.subprocess
def test_lines_that_set_something_are_reported_and_what_is_in_use_around_the_model_alone(
    train: Train,
) -> None:
    before = """
if os.environ.get("NCCL_DEBUG"): print("never")
os.environ["MKL_NUM_THREADS"] = "2"
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.update(TORCH_LOGS="")
def switch():
    torch.backends.mkldnn.enabled = True
switch()
def prepare():
    torch.set_num_threads(2)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
prepare()
"""
    around = "torch.autocast('cpu', torch.bfloat16), torch.autograd.set_detect_anomaly(True)"
    # Gradients of the first layer are in no optimizer.
    source = training(before, around).replace('{"params": model[0].parameters()}, ', "")
    told = settings(train(source))
    (floats,) = told["parameters"]
    assert (floats["trained"], floats["unused"], floats["unused_elements"]) == (3, 2, 72)
    (layer,) = told["untrained"]
    assert (layer["path"], layer["name"]) == ("0", "Linear")
    assert "model(" in source.splitlines()[layer["line"] - 1]
    assert told["autocast"] == {"cpu": "bfloat16"}
    assert told["modes"]["anomaly"] is True
    found = told["places"]
    assert {file for file, _ in found.values()} == {next(iter(found.values()))[0]}
    assert next(iter(found.values()))[0].endswith("train.py")
    lines = {name: source.splitlines()[line - 1].strip() for name, (_, line) in found.items()}
    assert lines == {
        "MKL_NUM_THREADS": 'os.environ["MKL_NUM_THREADS"] = "2"',
        "OMP_NUM_THREADS": 'os.environ.setdefault("OMP_NUM_THREADS", "2")',
        "TORCH_LOGS": 'os.environ.update(TORCH_LOGS="")',
        "mkldnn.enabled": "torch.backends.mkldnn.enabled = True",
        "set_num_threads": "torch.set_num_threads(2)",
        "sched_setaffinity": "os.sched_setaffinity(0, os.sched_getaffinity(0))",
        "set_detect_anomaly": f"with {around}:",
        "autocast": f"with {around}:",
    }


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_model_of_several_processes_tells_how_it_is_wrapped_and_compiled(train: Train) -> None:
    before = """
import tempfile
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
"""
    wrapped = """wrapped = nn.parallel.DistributedDataParallel(
    torch.compile(model, backend="eager"), bucket_cap_mb=5, gradient_as_bucket_view=True)
before = set(sys.modules)"""
    source = training(before, call="wrapped").replace("before = set(sys.modules)", wrapped)
    told = settings(train(source))
    assert told["compiled"] is True
    (wrapper,) = told["wrappers"]
    assert wrapper == {
        "name": "DistributedDataParallel",
        "count": 1,
        "arguments": {
            "bucket_bytes_cap": 5 << 20,
            "find_unused_parameters": False,
            "gradient_as_bucket_view": True,
            "static_graph": False,
            "broadcast_buffers": True,
        },
    }


def test_what_cannot_be_read_is_unknown_and_harms_nothing() -> None:
    class Odd:
        @property
        def param_groups(self) -> list[Any]:
            raise RuntimeError("not now")

        def modules(self) -> list[Any]:
            raise RuntimeError("not now")

    facts = Setup().note(object(), {Odd(): None}, {Odd(): None})
    known = {name for name, value in facts.items() if value is not None}
    # Of dynamo it depends on what other tests have imported.
    some = {"cores", "environment", "gc", "optimizers", "places", "processor"}
    assert known - {"dynamo"} == some
    (optimizer,) = facts["optimizers"]
    assert optimizer["name"].endswith("Odd")
    assert {optimizer[name] for name in ("fused", "groups", "parameters", "line")} == {None}


PROFILED = """
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
turns = schedule(wait=0, warmup=0, active=4)

def read(profiler):
    # Reading a name that is no text raises.
    names = [event.name() for event in profiler.profiler.kineto_results.events()]
    print(any("call_places" in name for name in names))

with profile(
    activities=[ProfilerActivity.CPU], with_stack=True, schedule=turns, on_trace_ready=read
) as own:
    for _ in range(8):
        model(torch.rand(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        own.step()
"""


@pytest.mark.slow
def test_a_profile_of_the_script_holds_nothing_of_it_and_can_be_read(train: Train) -> None:
    run = train(PROFILED)
    assert (run.code, set(run.out.split())) == (0, {"False"})
    (told,) = run.notes("settings")
    assert told["optimizers"]


def fake_torch(is_initialized: bool, uuids: list[Any]) -> Any:
    def properties(number: int) -> SimpleNamespace:
        assert is_initialized
        return SimpleNamespace() if uuids[number] is None else SimpleNamespace(uuid=uuids[number])

    cuda = SimpleNamespace(
        is_initialized=lambda: is_initialized,
        get_device_capability=lambda: (9, 0),
        device_count=lambda: len(uuids),
        current_device=lambda: 1,
        get_device_properties=properties,
    )
    return SimpleNamespace(cuda=cuda)


def test_gpus_are_told_by_their_uuid() -> None:
    told = devices(fake_torch(True, [UUID(int=7), UUID(int=9)]))
    assert told == {
        "visible": 2,
        "current": 1,
        "architecture": "sm_90",
        "uuids": [str(UUID(int=7)), str(UUID(int=9))],
    }
    older = devices(fake_torch(True, [None]))
    assert (older["uuids"], older["architecture"]) == (None, "sm_90")
    # None is asked before the training uses one.
    assert devices(fake_torch(False, [UUID(int=7)])) is None


SAVING = """
import io, pickle, sys
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(800, 800), nn.Linear(800, 800))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def keep(step):
    torch.save({"step": step, "model": model.state_dict()}, f"checkpoint-{step}.pt")

for step in range(8):
    loss = model(torch.rand(4, 800)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 3:
        keep(step)
    small = io.BytesIO()
    torch.save(step, small)
try:
    torch.save(model, "missing/directory/model.pt")
except Exception as error:
    print(type(error).__name__)
print(pickle.loads(pickle.dumps(torch.save)) is torch.save, torch.save.__name__)
print(f"{loss.item():.6f}", torch.load("checkpoint-7.pt")["step"], torch.rand(1).item())
"""

COMPILING = """
import torch
from torch import nn
torch.manual_seed(0)

def activate(x):
    return x.sin() + 1

model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
activation = torch.compile(activate, backend="eager", dynamic=False)
for step in range(6):
    loss = activation(model(torch.rand(step // 2 + 1, 8))).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"{loss.item():.6f}", torch.rand(1).item())
"""


def rows(run: Run, kind: str) -> list[dict[str, object]]:
    lines = [line for path in run.spool.notes_files() for line in path.read_text().splitlines()]
    return [note for line in lines if (note := json.loads(line))["kind"] == kind]


@pytest.mark.slow
@pytest.mark.subprocess
def test_saving_is_noted_with_its_line_and_changes_nothing(unnoticed: Train) -> None:
    run = unnoticed(SAVING, options={"profile": False})
    assert run.code == 0
    assert run.notes("error") == []
    noted = rows(run, "save")
    line = SAVING.splitlines().index(
        '    torch.save({"step": step, "model": model.state_dict()}, f"checkpoint-{step}.pt")'
    )
    of_checkpoint = [note for note in noted if note["data"]["line"] == line + 1]
    assert of_checkpoint
    assert sum(note["data"]["count"] for note in of_checkpoint) <= 2
    assert all(note["duration"] >= LEAST_SAVING_NS for note in noted)
    assert all(note["data"]["trains"] for note in noted)
    assert {note["data"]["function"] for note in of_checkpoint} == {"keep"}


@pytest.mark.slow
@pytest.mark.subprocess
def test_compilations_are_noted_with_their_reason_and_change_nothing(unnoticed: Train) -> None:
    run = unnoticed(COMPILING, options={"profile": False})
    assert run.code == 0
    assert run.notes("error") == []
    noted = [note for note in rows(run, "compile") if note["data"]["function"] == "activate"]
    assert len(noted) == 3
    line = COMPILING.splitlines().index("def activate(x):") + 1
    assert {note["data"]["line"] for note in noted} == {line}
    assert noted[0]["data"]["reason"] is None
    assert "size mismatch" in str(noted[1]["data"]["reason"])
    assert all(note["duration"] > 0 for note in noted)
    starts = [note["data"]["start"] for note in noted]
    assert starts == sorted(starts)


def test_small_saves_share_notes_and_none_is_lost_but_the_last() -> None:
    saves, site = Saves(), CallSite("train.py", 3, 3, "main")
    noted = [note for _ in range(100_000) if (note := saves.add(site, LEAST_SAVING_NS // 4))]
    assert noted[0][0] == LEAST_SAVING_NS
    assert noted[0][1]["count"] == 4
    assert len(noted) < 1500
    together = sum(duration for duration, _ in noted)
    assert together >= 0.99 * 100_000 * (LEAST_SAVING_NS // 4)


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"size": 3, "root": "/mnt/data/train"}, {"path": "/mnt/data/train"}),
        ({"files": [Path("/mnt/data two/a")]}, {"path": "/mnt/data two/a"}),
        ({"samples": [("/mnt/database/a", 1)]}, {"path": "/mnt/database/a"}),
        ({"dataset": SimpleNamespace(where="/mnt/data")}, {"path": "/mnt/data"}),
        ({"urls": ["s3://bucket/a"]}, {"path": "s3://bucket/a", "filesystem": "s3"}),
    ],
)
def test_the_place_of_the_data_is_named(attributes: dict[str, Any], found: dict[str, str]) -> None:
    assert datasets.source_of(SimpleNamespace(**attributes)) == found


def test_a_relative_path_counts_by_the_name_of_its_attribute(tmp_path: Path) -> None:
    assert datasets.source_of(SimpleNamespace(name="train", split="a b")) == {}
    found = datasets.source_of(SimpleNamespace(data_dir="train"))
    assert found["path"] == str(Path.cwd() / "train")


def test_an_odd_dataset_tells_nothing() -> None:
    odd: list[Any] = []
    odd.append(odd)
    assert datasets.source_of(SimpleNamespace(files=odd)) == {}
    assert datasets.source_of(3) == {}


SCRIPT = """
import gc, sys
import torch
from torch.utils.data import DataLoader, TensorDataset

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = TensorDataset(torch.randn(8, 4))

def epoch(loader, trains):
    for (x,) in loader:
        with torch.set_grad_enabled(trains):
            loss = net(x).sum()
        if trains:
            loss.backward()
            optimizer.step()

def loader_of(size):
    return DataLoader(data, batch_size=size)

for _ in range(20):
    epoch(loader_of(4), True)
    epoch(loader_of(2), False)
    gc.collect()
# Two alike at the same time are two, and one of another size is another.
both = [loader_of(4), loader_of(4)]
for loader in (*both, loader_of(8)):
    epoch(loader, True)
"""


def test_a_loader_that_is_made_anew_is_the_one_it_was(train: Any) -> None:
    run = train(SCRIPT)

    assert run.code == 0, run.err
    notes = run.notes("loader")
    sizes = [(note["id"], note["batch_size"]) for note in notes if "batch_size" in note]
    roles = [(note["id"], note["role"]) for note in notes if "role" in note]
    assert sizes == [(1, 4), (2, 2), (3, 4), (4, 8)]
    assert roles == [(1, "train"), (2, "eval"), (3, "train"), (4, "train")]
    assert len(json.dumps(notes)) < 10_000
