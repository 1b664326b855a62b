"""Changes around one line: what they write, and what they leave alone and why."""

import ast
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from perftui.fixes.compilation import channels_last, compile_dynamic, compile_fix, recompute_off
from perftui.fixes.fix import Plan
from perftui.fixes.gradients import ddp_all_used, ddp_bucket_view, no_grad
from perftui.fixes.script_overhead import collect_off, evaluate_less_often, seldom
from perftui.fixes.source.calls import CallSpec, removed
from perftui.fixes.source.patching import apply_edits, call_patch
from perftui.fixes.switches import autocast_bf16, cudnn_benchmark, cudnn_search_off, tf32
from perftui.script.program import Literal, PatchRefusedError, parse_program

MARK = "  # here"
PLANTED = Path(__file__).parents[2] / "verify/scenarios/trainings"
TRAIN = "loss = model(x); loss.backward(); optimizer.step()"


def changed(plan: Plan, source: str) -> str:
    """``source`` as ``plan`` changes it at the line that ends in ``# here``."""
    source = dedent(source).replace("TRAIN", TRAIN).lstrip("\n")
    line = next(at for at, text in enumerate(source.split("\n"), 1) if text.endswith(MARK))
    source = source.replace(MARK, "")
    after, _ = apply_edits(source.encode(), list(plan(parse_program(source.encode()), line)))
    ast.parse(after)
    return after.decode()


def executed(*sources: str) -> tuple[dict[str, Any], ...]:
    """The names that each of these scripts defines."""
    names: tuple[dict[str, Any], ...] = tuple({} for _ in sources)
    for source, known in zip(sources, names, strict=True):
        exec(source, known)  # noqa: S102
    return names


def difference(plan: Plan, source: str) -> list[str]:
    """Lines taken out and put in, as of a diff."""
    before = dedent(source).replace("TRAIN", TRAIN).lstrip("\n").replace(MARK, "").split("\n")
    after = changed(plan, source).split("\n")
    out = [f"- {line.strip()}" for line in before if line.strip() and line not in after]
    return [*out, *(f"+ {line.strip()}" for line in after if line.strip() and line not in before)]


COLLECT = collect_off.plan

WRITTEN = {
    "a call in the loop": (COLLECT, "import gc\nfor x in y:\n    f(x)\n    gc.collect()  # here\n"),
    "under another name": (
        COLLECT,
        "from gc import collect as tidy\nfor x in y:\n    f(x)\n    tidy(2)  # here\n",
    ),
    "over several lines": (
        COLLECT,
        "import gc\nfor x in y:\n    f(x)\n    gc.collect(  # here\n        2\n    )\n",
    ),
}


@pytest.mark.parametrize(("plan", "source"), WRITTEN.values(), ids=WRITTEN)
def test_a_call_is_left_out(plan: Plan, source: str) -> None:
    after = changed(plan, source)
    assert after == f"{source.partition(chr(10))[0]}\nfor x in y:\n    f(x)\n"


def test_where_a_block_has_no_other_statement_pass_stays() -> None:
    source = "import gc\nif x:\n    # tidy up\n    gc.collect()  # here\nelse:\n    f()\n"
    after = changed(COLLECT, source)
    assert after == "import gc\nif x:\n    # tidy up\n    pass\nelse:\n    f()\n"


SELDOM = {
    "a counter of one's own": (
        "n = 0\nwhile True:\n    TRAIN\n    save(n)  # here\n    n += 1\n",
        ["- save(n)", "+ if n % 10 == 0:", "+ save(n)"],
    ),
    "a method two calls deep": (
        """
        class Trainer:
            def write(self, loss):
                print(loss)  # here

            def report(self, loss):
                self.write(loss)

            def fit(self):
                for step, x in enumerate(self.loader):
                    TRAIN
                    self.report(loss)
        """,
        ["- self.report(loss)", "+ if step % 10 == 0:", "+ self.report(loss)"],
    ),
    "a block that writes": (
        """
        for step in range(9):
            TRAIN
            with open(path) as file:
                weights = net.state_dict()
                dump(weights, file)  # here
        """,
        [
            "- with open(path) as file:",
            "- weights = net.state_dict()",
            "- dump(weights, file)",
            "+ if step % 10 == 0 or step == 8:",
            "+ with open(path) as file:",
            "+ weights = net.state_dict()",
            "+ dump(weights, file)",
        ],
    ),
    "not every 20": (
        "for step in range(9):\n    TRAIN\n    if not step % 20:\n        save()  # here\n",
        ["- if not step % 20:", "+ if not step % 200:"],
    ),
}


@pytest.mark.parametrize(("source", "lines"), SELDOM.values(), ids=SELDOM)
def test_what_only_looks_is_done_less_often(source: str, lines: list[str]) -> None:
    assert difference(seldom, source) == lines


def test_evaluation_may_switch_modes() -> None:
    source = """
    def evaluate(model):
        model.eval()
        right = sum(f(x) for x in held_out)  # here
        model.train()
        print(right)

    for step in range(9):
        TRAIN
        if step % 5 == 4:
            evaluate(model)
    """
    assert difference(evaluate_less_often.plan, source) == [
        "- if step % 5 == 4:",
        "+ if step % 50 == 4:",
    ]
    with pytest.raises(PatchRefusedError, match=r"calls eval\(\)"):
        changed(seldom, source)


def test_activations_are_kept() -> None:
    source = """
    from torch.utils.checkpoint import checkpoint as ckpt
    x = ckpt(self.block, x, mask, use_reentrant=False, scale=2)  # here
    y = ckpt(lambda z: z + 1, x, preserve_rng_state=False)
    """
    assert difference(recompute_off.plan, source) == [
        "- x = ckpt(self.block, x, mask, use_reentrant=False, scale=2)",
        "- y = ckpt(lambda z: z + 1, x, preserve_rng_state=False)",
        "+ x = self.block(x, mask, scale=2)",
        "+ y = (lambda z: z + 1)(x)",
    ]


def test_one_compilation_for_every_size() -> None:
    source = "import torch\nnet = torch.compile(net, dynamic=False)  # here\n"
    for text in (source, source.replace(", dynamic=False", "")):
        added = difference(compile_dynamic.plan, text)[-1]
        assert added == "+ net = torch.compile(net, dynamic=True)"


SCRIPT = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def main():
    net = DDP(Net().cuda(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(9):  # here
        for x, y in loader:
            out = net(x)
            loss = f(out, y)
            loss.backward()
            optimizer.step()
        evaluate(net)
"""

MODEL = {
    "tf32": (tf32.plan, ['+ torch.set_float32_matmul_precision("high")']),
    "cudnn.benchmark": (cudnn_benchmark.plan, ["+ torch.backends.cudnn.benchmark = True"]),
    "compile": (compile_fix.plan, ["+ net.compile()"]),
    "channels last": (channels_last.plan, ["+ net.to(memory_format=torch.channels_last)"]),
    "autocast": (
        autocast_bf16.plan,
        [
            "- out = net(x)",
            "- loss = f(out, y)",
            '+ with torch.autocast("cuda", dtype=torch.bfloat16):',
            "+ out = net(x)",
            "+ loss = f(out, y)",
        ],
    ),
    "bucket view": (
        ddp_bucket_view.plan,
        [
            "- net = DDP(Net().cuda(), find_unused_parameters=True)",
            "+ net = DDP(Net().cuda(), find_unused_parameters=True, gradient_as_bucket_view=True)",
        ],
    ),
    "all used": (
        ddp_all_used.plan,
        [
            "- net = DDP(Net().cuda(), find_unused_parameters=True)",
            "+ net = DDP(Net().cuda(), find_unused_parameters=False)",
        ],
    ),
}


@pytest.mark.parametrize(("plan", "lines"), MODEL.values(), ids=MODEL)
def test_how_the_whole_model_computes(plan: Plan, lines: list[str]) -> None:
    assert difference(plan, SCRIPT) == lines
    # What stands there already is not written a second time.
    with pytest.raises(PatchRefusedError):
        changed(plan, changed(plan, SCRIPT).replace("range(9):", "range(9):  # here"))


SEARCHES = "import torch\ntorch.backends.cudnn.benchmark = True  # here\n"
BY_NAME = "from torch.backends import cudnn\nif cuda:\n    cudnn.benchmark = True  # here\n"


@pytest.mark.parametrize("source", [SEARCHES, BY_NAME])
def test_the_search_of_cudnn_is_switched_off_where_it_is_on(source: str) -> None:
    after = changed(cudnn_search_off.plan, source)
    assert after == source.replace("True  # here", "False")
    for refused, why in (
        (source.replace("True", "False"), "no line of the file certainly sets it"),
        (source.replace("True", "not repeatable"), "computes it: not repeatable"),
    ):
        with pytest.raises(PatchRefusedError, match=why):
            changed(cudnn_search_off.plan, refused)


def test_what_comes_before_the_loop_comes_before_all_epochs() -> None:
    after = changed(compile_fix.plan, SCRIPT).split("\n")
    at = next(at for at, line in enumerate(after) if "net.compile()" in line)
    assert after[at - 1].lstrip().startswith("optimizer =")
    assert after[at + 1].lstrip().startswith("for epoch")


REFUSED = {
    "another function": (
        COLLECT,
        "import gc\ntidy()  # here\n",
        "does not certainly call gc.collect",
    ),
    "a name of one's own": (
        COLLECT,
        "import gc\ngc = mine\ngc.collect()  # here\n",
        "does not certainly call",
    ),
    "two on a line": (COLLECT, "import gc\ngc.collect(); f()  # here\n", "several statements"),
    "behind a colon": (COLLECT, "import gc\nif x: gc.collect()  # here\n", "begin its line"),
    "part of the step": (
        seldom,
        "for step in range(9):\n    loss = model(x)\n    loss.backward()  # here\n",
        "part of the training step",
    ),
    "no loop": (seldom, "print(1)  # here\n", "not in a loop over training steps"),
    "a loop that trains nothing": (
        seldom,
        "for step in range(9):\n    print(1)  # here\n",
        "not in a loop over training steps",
    ),
    "a function that changes the model": (
        seldom,
        """
        def log():
            print(1)  # here
            average.mul_(0.9)
        for i in range(9):
            TRAIN
            log()
        """,
        r"calls mul_\(\)",
    ),
    "random numbers": (
        seldom,
        "for i in range(9):\n    TRAIN\n    show(torch.randn(3))  # here\n",
        r"calls randn\(\)",
    ),
    "what it keeps is an attribute": (
        seldom,
        "for i in range(9):\n    TRAIN\n    state.best = loss  # here\n",
        "sets state.best",
    ),
    "called from two places": (
        seldom,
        """
        def log():
            print(1)  # here
        log()
        for i in range(9):
            TRAIN
            log()
        """,
        "called at 2 places",
    ),
    "a loop that trains": (
        no_grad.plan,
        "import torch\nfor x in y:\n    TRAIN  # here\n",
        "not in a loop that only evaluates",
    ),
    "two models": (
        compile_fix.plan,
        """
        a, b = nets(); o = optimizer(a.parameters(), b.parameters())
        for x in y:  # here
            loss = a(x) + b(x); loss.backward(); o.step()
        """,
        "no single model: a, b",
    ),
    "two loops that train": (
        compile_fix.plan,
        "for x in y:\n    TRAIN\nfor x in y:  # here\n    TRAIN\n",
        "2 loops of the file train",
    ),
    "compiled already": (
        compile_fix.plan,
        "m = torch.compile(m)\nfor x in y:  # here\n    TRAIN\n",
        "line 1 already compiles something",
    ),
    "a precision of its own": (
        autocast_bf16.plan,
        "scaler = GradScaler()\nfor x in y:  # here\n    TRAIN\n",
        "line 1 already sets a precision",
    ),
    "forward and backward in one": (
        autocast_bf16.plan,
        """
        import torch
        model = Net(); model.parameters()
        for x in y:  # here
            model(x).backward(); optimizer.step()
        """,
        "not separate statements",
    ),
    "TF32 is set": (
        tf32.plan,
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = False  # here\n",
        "line 2 already sets it",
    ),
    "another checkpoint": (recompute_off.plan, "checkpoint(f, x)  # here\n", "torch's checkpoint"),
}


@pytest.mark.parametrize(("plan", "source", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(plan: Plan, source: str, reason: str) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        changed(plan, source)


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
        ("m = DDP(net, bucket_cap_mb=25.5)", {"bucket_cap_mb": -1.5},
         "m = DDP(net, bucket_cap_mb=-1.5)"),
        ("m = DDP(net, bucket_cap_mb=-1)", {"bucket_cap_mb": 1.5},
         "m = DDP(net, bucket_cap_mb=1.5)"),
        ("m = DDP(net, None, None, 0, True)", {"broadcast_buffers": False, "static_graph": True},
         "m = DDP(net, None, None, 0, False, static_graph=True)"),
        ("m = DDP(net, **{'init': 'a'})", {"init": "b"}, "m = DDP(net, **{'init': 'b'})"),
        ("m = f(DDP(net)(x))", {"init": "it's"}, 'm = f(DDP(net, init="it\'s")(x))'),
    ],
)  # fmt: skip
def test_any_argument_of_any_call_is_changed(path, source, arguments, after) -> None:
    assert patched(path, source, arguments) == after


@pytest.mark.parametrize(
    ("source", "arguments", "reason"),
    [
        ("m = DDP(net, bucket_cap_mb=None)", {"bucket_cap_mb": 1}, "bucket_cap_mb is None"),
        ("m = DDP(net, bucket_cap_mb=True)", {"bucket_cap_mb": 1}, "bucket_cap_mb is True"),
        ("m = DDP(net, bucket_cap_mb=-x)", {"bucket_cap_mb": 25}, "-x is computed"),
    ],
)  # fmt: skip
def test_calls_that_are_not_certain_are_refused(path, source, arguments, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        patched(path, source, arguments)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("m = DDP(net, find_unused_parameters=True)\n", "m = DDP(net)\n"),
        ("m = DDP(net, find_unused_parameters=on, x=1)\n", "m = DDP(net, x=1)\n"),
        ("m = DDP(\n    net,  # all of it\n    find_unused_parameters=True,\n)\n",
         "m = DDP(\n    net,  # all of it\n)\n"),
        ("m = DDP(\n    net,\n    find_unused_parameters=True,\n    # of two\n    **more\n)\n",
         None),
        ("m = DDP(net, find_unused_parameters=True)(  # x\n)\n", "m = DDP(net)(  # x\n)\n"),
        ("m = DDP(net,\n    find_unused_parameters=True,  # why\n)\n", None),
        ("m = DDP(net, find_unused_parameters=unused())\n", None),
        ("m = DDP(net)\n", None),
    ],
)  # fmt: skip
def test_a_keyword_is_taken_out(path, before, after) -> None:
    path.write_text(HEAD + before)
    name = "find_unused_parameters"

    without = replace(DDP, plan=lambda _, p, c, __: {name: removed(p, c, name)})

    def made() -> str:
        return call_patch(path, 2, without, {name: False}).after.decode().removeprefix(HEAD)

    if after is not None:
        assert made() == after
        return
    with pytest.raises(PatchRefusedError, match=r"a comment stands|is computed|no keyword"):
        made()
