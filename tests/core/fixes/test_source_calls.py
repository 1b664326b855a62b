"""Arguments of any call that a fix is about, as its description says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.fixes.source.calls import CallSpec, removed
from perftui.fixes.source.patching import call_patch
from perftui.script.program import Literal, PatchRefusedError

DDP = CallSpec(
    noun="module",
    what="torch's DistributedDataParallel",
    names={
        "torch.nn.parallel.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel"
    },
    positions={"broadcast_buffers": 4},
    defaults={"bucket_cap_mb": 25, "find_unused_parameters": False, "broadcast_buffers": True},
    why_not_in_loops="the module is wrapped in a loop",
)
HEAD = "from torch.nn.parallel import DistributedDataParallel as DDP\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


def patched(path: Path, source: str, arguments: dict[str, Literal]) -> str:
    path.write_text(HEAD + source)
    patch = call_patch(path, 2, DDP, arguments)
    assert (patch.target, patch.line) == (DDP.names["torch.nn.parallel.DistributedDataParallel"], 2)
    assert patch.arguments == arguments
    return patch.after.decode().removeprefix(HEAD)


@pytest.mark.parametrize(
    ("source", "arguments", "after"),
    [
        ("m = DDP(net)", {"bucket_cap_mb": 50}, "m = DDP(net, bucket_cap_mb=50)"),
        (
            "m = DDP(net, bucket_cap_mb=25.5)",
            {"bucket_cap_mb": -1.5},
            "m = DDP(net, bucket_cap_mb=-1.5)",
        ),
        (
            "m = DDP(net, bucket_cap_mb=-1)",
            {"bucket_cap_mb": 1.5},
            "m = DDP(net, bucket_cap_mb=1.5)",
        ),
        (
            "m = DDP(net, None, None, 0, True)",
            {"broadcast_buffers": False, "static_graph": True},
            "m = DDP(net, None, None, 0, False, static_graph=True)",
        ),
        ("m = DDP(net, **{'init': 'a'})", {"init": "b"}, "m = DDP(net, **{'init': 'b'})"),
        ("m = f(DDP(net)(x))", {"init": "it's"}, 'm = f(DDP(net, init="it\'s")(x))'),
    ],
)
def test_any_argument_of_any_call_is_changed(path, source, arguments, after) -> None:
    assert patched(path, source, arguments) == after


@pytest.mark.parametrize(
    ("source", "arguments", "reason"),
    [
        ("m = [DDP(net) for net in nets]", {"bucket_cap_mb": 1}, "wrapped in a loop"),
        ("m = DDP(net, bucket_cap_mb=None)", {"bucket_cap_mb": 1}, "bucket_cap_mb is None"),
        ("m = DDP(net, bucket_cap_mb=True)", {"bucket_cap_mb": 1}, "bucket_cap_mb is True"),
        (
            "m = Net(DDP)",
            {"bucket_cap_mb": 1},
            "calls Net, which may not be torch's Dist",
        ),
        ("m = DDP(net)", {"bucket_cap_mb": 25}, "already has"),
        ("m = DDP(net, bucket_cap_mb=-x)", {"bucket_cap_mb": 25}, "-x is computed"),
    ],
)
def test_what_is_not_certain_is_refused(path, source, arguments, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        patched(path, source, arguments)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m = DDP(net, find_unused_parameters=True)\n", "m = DDP(net)\n"),
        ("m = DDP(net, find_unused_parameters=on, x=1)\n", "m = DDP(net, x=1)\n"),
        (
            "m = DDP(\n    net,  # all of it\n    find_unused_parameters=True,\n)\n",
            "m = DDP(\n    net,  # all of it\n)\n",
        ),
        (
            "m = DDP(\n    net,\n    find_unused_parameters=True,\n    # of two\n    **more\n)\n",
            None,
        ),
        ("m = DDP(net, find_unused_parameters=True)(  # x\n)\n", "m = DDP(net)(  # x\n)\n"),
        ("m = DDP(net,\n    find_unused_parameters=True,  # why\n)\n", None),
        ("m = DDP(net, find_unused_parameters=unused())\n", None),
        ("m = DDP(net)\n", None),
    ],
)
def test_a_keyword_is_taken_out(path, before, after) -> None:
    path.write_text(HEAD + before)
    name = "find_unused_parameters"

    without = replace(DDP, plan=lambda _, p, c, __: {name: removed(p, c, name)})

    def made() -> str:
        patch = call_patch(path, 2, without, {name: False})
        return patch.after.decode().removeprefix(HEAD)

    if after is not None:
        assert made() == after
        return
    with pytest.raises(PatchRefusedError, match=r"a comment stands|is computed|no keyword"):
        made()
