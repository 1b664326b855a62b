"""CUDA graphs by ``torch.compile``: what is written, and where sizes or results forbid it."""

from functools import partial

import pytest

from perftui.fixes.compilation import graphed
from perftui.script.program import PatchRefusedError
from tests.core.fixes.test_line_changes import changed, difference

PLAN = partial(graphed, "")

SCRIPT = """
import re
import torch
words = re.compile("a")
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters())
for x, y in loader:  # here
    out = net(x)
    loss = f(out, y)
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
"""
COMPILED = SCRIPT.replace("net = Net().cuda()", "net = torch.compile(Net().cuda(), fullgraph=True)")
IN_PLACE = SCRIPT.replace("optimizer =", "net.compile(mode='default')\noptimizer =")


def test_a_model_is_compiled_into_graphs_and_one_that_is_compiled_gets_the_mode() -> None:
    assert difference(PLAN, SCRIPT) == ['+ net.compile(mode="reduce-overhead")']
    after = 'net = torch.compile(Net().cuda(), fullgraph=True, mode="reduce-overhead")'
    assert after in changed(PLAN, COMPILED)
    assert 'net.compile(mode="reduce-overhead")\n' in changed(PLAN, IN_PLACE)


REFUSED = {
    "sizes that change": (partial(graphed, "sizes differ"), SCRIPT, "sizes differ"),
    "compiled so already": (
        PLAN,
        COMPILED.replace("fullgraph=True", "mode='reduce-overhead'"),
        "compiles with mode='reduce-overhead' already",
    ),
    "another mode": (
        PLAN,
        COMPILED.replace("fullgraph=True", "mode='max-autotune'"),
        "compiles with mode='max-autotune' already",
    ),
    "compiled for all sizes": (
        PLAN,
        COMPILED.replace("fullgraph=True", "dynamic=True"),
        "compiles with dynamic",
    ),
    "a decorator": (
        PLAN,
        SCRIPT.replace("net = Net", "@torch.compile\ndef g(x): return x\nnet = Net"),
        "already compiles something",
    ),
    "a part of the model": (
        PLAN,
        SCRIPT.replace("net = Net().cuda()", "net = Net().cuda()\nnet.body = torch.compile(body)"),
        "may not compile the whole model",
    ),
    "several ranks": (PLAN, SCRIPT.replace("Net().cuda()", "DDP(Net())"), "over several GPUs"),
    "graphs of its own": (
        PLAN,
        SCRIPT + "g = torch.cuda.CUDAGraph()\n",
        "already records CUDA graphs",
    ),
    "two forward passes": (PLAN, SCRIPT.replace("f(out, y)", "f(out, net(y))"), "2 places"),
    "many forward passes": (
        PLAN,
        SCRIPT.replace("out = net(x)", "for part in x:\n        out = net(part)"),
        "several times a step",
    ),
    "outputs that the next step takes": (
        PLAN,
        SCRIPT.replace("out = net(x)", "out, state = net(x, state)"),
        "uses state of the step before",
    ),
    "outputs that are kept": (
        PLAN,
        SCRIPT.replace("losses.append(loss", "outputs.append(out"),
        "keeps out for later steps",
    ),
}


@pytest.mark.parametrize(("plan", "source", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(plan, source: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(plan, source)
