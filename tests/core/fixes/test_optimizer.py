"""Optimizers with other arguments, and averages of weights by lists."""

from pathlib import Path
from textwrap import indent

import pytest

from perftui.fixes.optimizer import HAVE, foreach_average, optimizer_spec
from perftui.fixes.option import Patch
from perftui.fixes.source.patching import call_patch
from perftui.script.program import PatchRefusedError
from tests.core.fixes.test_line_changes import PLANTED, changed, executed

AVERAGE_HEAD = """
import torch
torch.manual_seed(0)
net, ema = (torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2)) for _ in range(2))
net[1].bias.requires_grad_(False)
shadow = {name: p.detach().clone() for name, p in ema.named_parameters()}
by_name = dict(ema.named_parameters())
decay = 0.9
with torch.no_grad():
"""
PAIRS = "for e, p in zip(ema.parameters(), net.parameters()):\n    "
NAMED = "for name, p in net.named_parameters():\n    "

LOOPS = {
    "mul and add": f"{PAIRS}e.mul_(decay).add_(p, alpha=1 - decay)  # here",
    "a product": f"{PAIRS}e.mul_(decay).add_(p * (1 - decay))  # here",
    "lerp": f"{PAIRS}e.lerp_(p, 1 - decay)  # here",
    "copy": f"{PAIRS}e.copy_((1 - decay) * p + decay * e)  # here",
    "data": f"{PAIRS}e.data = e.data * decay + p.data * (1 - decay)  # here",
    "by name": f"{NAMED}old = by_name[name]\n    old.copy_(decay * old + (1 - decay) * p)  # here",
    "a dict": f"{NAMED}shadow[name] = decay * shadow[name] + (1 - decay) * p  # here",
    "some of them": f"{NAMED}if p.requires_grad:\n        by_name[name].lerp_(p, 0.25)  # here",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_averages_are_the_same(loop: str) -> None:
    torch = pytest.importorskip("torch")
    source = AVERAGE_HEAD + indent(loop, "    ")
    after = changed(foreach_average.plan, source)
    assert "_foreach_" in after
    plain, listed = executed(source, after)
    for one, other in zip(plain["ema"].parameters(), listed["ema"].parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert plain["shadow"].keys() == listed["shadow"].keys()
    for name, value in plain["shadow"].items():
        torch.testing.assert_close(value, listed["shadow"][name])


def test_data_that_something_else_holds_stays_as_it_is() -> None:
    pytest.importorskip("torch")
    loop = LOOPS["data"].replace("\n", "\n    ")
    text = changed(foreach_average.plan, f"{AVERAGE_HEAD}    held = ema[0].weight.data\n    {loop}")
    names, plain = executed(text, AVERAGE_HEAD + "    pass")
    assert names["held"].equal(plain["ema"][0].weight)


def test_planted_trainings_are_mended_and_keep_their_comments() -> None:
    for name, text in (
        ("ema_by_hand", "rows = [(averaged[name], value) for name, value in student.named_para"),
        ("residual_average_by_parameter", "self.shadow.update(zip(names, averages))"),
    ):
        source = (PLANTED / f"{name}.py").read_text().replace("  # planted", "  # here", 1)
        after = changed(foreach_average.plan, source)
        assert text in after
        assert after.count("# planted") >= 1


HEAD = "import torch\n"


def optimizer_patch(path: Path, line: int, argument: str, had: bool | None = None) -> Patch:
    return call_patch(path, line, optimizer_spec(argument), {argument: True}, {argument: had})


WRITTEN = {
    "a module": (
        "import torch\n",
        "o = torch.optim.AdamW(net.parameters(), lr=1e-3)\n",
        "o = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)\n",
    ),
    "a module by another name": (
        "import torch.optim as optim\n",
        "o = optim.SGD(p, .1, 0.9)\n",
        "o = optim.SGD(p, .1, 0.9, fused=True)\n",
    ),
    "a class by another name": (
        "from torch.optim import AdamW as A\n",
        "o = A(\n    p,\n    lr=1e-3,  # found by search\n)\n",
        "o = A(\n    p,\n    lr=1e-3,  # found by search\n    fused=True,\n)\n",
    ),
    "where it is defined": (
        "from torch.optim.adam import Adam\n",
        "for fold in folds: o = Adam(p)\n",
        "for fold in folds: o = Adam(p, fused=True)\n",
    ),
    "False": (
        "from torch import optim\n",
        "o = optim.Adam(p, fused = False, foreach=False)\n",
        "o = optim.Adam(p, fused = True, foreach=False)\n",
    ),
    "None": ("from torch import optim\n", "o = optim.Adam(p, fused=None)\n", None),
}


@pytest.mark.parametrize(("head", "before", "after"), WRITTEN.values(), ids=WRITTEN)
def test_an_optimizer_is_fused(path, head, before, after) -> None:
    path.write_text(head + before)
    patch = optimizer_patch(path, 2, "fused")
    assert patch.after.decode() == head + (after or before.replace("None", "True"))
    assert (patch.path, patch.line, patch.arguments) == (path, 2, {"fused": True})
    assert patch.target in {f"torch.optim.{name}" for name in HAVE["fused"]}
    path.write_bytes(patch.after)
    with pytest.raises(PatchRefusedError, match="already has"):
        optimizer_patch(path, 2, "fused")


def test_other_optimizers_have_foreach(path) -> None:
    path.write_text(
        "import torch\no = torch.optim.RMSprop(p, 1e-3, 0.9, 1e-8, 0, 0, False, False)\n"
    )
    patch = optimizer_patch(path, 2, "foreach")
    assert patch.after.endswith(b"False, False, foreach=True)\n")
    assert patch.target == "torch.optim.RMSprop"


REFUSED = {
    "a user's own": (
        "class AdamW(torch.optim.Optimizer): ...\no = AdamW(p)",
        "fused",
        "line 3 calls AdamW, which may not be a torch optimizer that supports fused",
    ),
    "one without it": ("o = torch.optim.RMSprop(p)", "fused", "calls RMSprop, which may not"),
    "by name": ("o = getattr(torch.optim, name)(p)", "fused", "may not be"),
    "no call": ("o = 1", "fused", "line 2 does not call a torch optimizer that supports fused"),
    "a dict": (
        "o = torch.optim.Adam(p, **{'lr': 1})", "fused", r"fused may come from \*\*\{'lr': 1\}"),
    "computed": (
        "o = torch.optim.Adam(p, fused=torch.cuda.is_available())",
        "fused",
        r"fused=torch.cuda.is_available\(\) is not a literal",
    ),
    "a variable": (
        "f = False\no = torch.optim.Adam(p, fused=f)", "fused", "fused=f is not a literal"),
    "a number": ("o = torch.optim.Adam(p, fused=1)", "fused", "fused is 1"),
    "by position": (
        "o = torch.optim.Adagrad(p, .1, 0, 0, 0, 1e-10, None)", "foreach", "given by position"),
    "beside foreach": (
        "o = torch.optim.Adam(p, foreach=True)", "fused", "fused does not go with foreach=True"),
    "beside what may be foreach": (
        "o = torch.optim.Adam(p, foreach=each)", "fused", "does not go with foreach=each"),
    "beside differentiable": (
        "o = torch.optim.Adam(p, differentiable=True)", "foreach", "with differentiable=True"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "argument", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused_with_the_reason(path, source, argument, reason) -> None:
    path.write_text(HEAD + source + "\n")
    line = (HEAD + source).count("\n") + 1
    with pytest.raises(PatchRefusedError, match=reason):
        optimizer_patch(path, line, argument)
    assert path.read_text() == HEAD + source + "\n"


def test_a_run_that_had_another_value_speaks_against_the_literal(path) -> None:
    path.write_text(HEAD + "o = torch.optim.Adam(p, fused=False)\n")
    with pytest.raises(PatchRefusedError, match="says fused=False, but the run had True"):
        optimizer_patch(path, 2, "fused", True)
    assert optimizer_patch(path, 2, "fused", False).arguments == {"fused": True}


@pytest.mark.subprocess
@pytest.mark.parametrize("argument", HAVE)
def test_torch_takes_what_is_written(path, argument) -> None:
    import inspect

    import torch

    for name in HAVE[argument]:
        path.write_text(HEAD + f"optimizer = torch.optim.{name}([parameter])\n")
        patch = optimizer_patch(path, 2, argument)
        found = {"parameter": torch.nn.Parameter(torch.zeros(2))}
        exec(patch.after, found)  # noqa: S102
        assert found["optimizer"].defaults[argument] is True
    for name, kind in inspect.getmembers(torch.optim, inspect.isclass):
        if argument in inspect.signature(kind).parameters:
            assert name in HAVE[argument]
