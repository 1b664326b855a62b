"""Activations and norms that are written out, as one call: the text, and the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftui.fixes.fused_operators import one_operator
from perftui.script.program import PatchRefusedError
from tests.core.fixes.test_line_changes import changed, difference

PLANTED = Path(__file__).parents[2] / "verify/scenarios/trainings"
HEAD = "import math\nimport numpy as np\nimport torch\nfrom torch.nn import functional as F\n"
MARK = "def mark():\n    pass  # here\n"


def function(*lines: str) -> str:
    return HEAD + MARK + "def f(x):\n" + "".join(f"    {line}\n" for line in lines)


ACTIVATIONS = {
    "as in the paper": (
        ("return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))",),
        'F.gelu(x, approximate="tanh")',
    ),
    "with a constant": (
        ("y = 0.7978845608 * (x + 0.044715 * torch.pow(x, 3))", "return 0.5 * x * (1 + y.tanh())"),
        'F.gelu(x, approximate="tanh")',
    ),
    "with numpy": (
        (
            "c = np.sqrt(2.0 / np.pi)",
            "y = c * (x + 0.044715 * x * x * x)",
            "return x / 2 * (torch.tanh(y) + 1.0)",
        ),
        'F.gelu(x, approximate="tanh")',
    ),
    "exact": (("return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))",), "F.gelu(x)"),
    "exact, in steps": (
        ("half = 0.5 * (1 + torch.erf(x * 2 ** -0.5))", "return half * x"),
        "F.gelu(x)",
    ),
    "silu": (("return x * torch.sigmoid(x)",), "F.silu(x)"),
    "silu by exp": (("return x / (1 + torch.exp(-x))",), "F.silu(x)"),
    "within more": (("return 3 - x * x.sigmoid()",), "3 - F.silu(x)"),
}


@pytest.mark.parametrize(("lines", "wanted"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_an_activation_is_one_call_with_the_same_result(
    lines: tuple[str, ...], wanted: str
) -> None:
    source = function(*lines)
    after = changed(one_operator, source)
    assert after.split("def f(x):\n")[1] == f"    return {wanted}\n"
    torch = pytest.importorskip("torch")
    x = torch.linspace(-6, 6, 101)
    results = [_run(text)["f"](x) for text in (source, after)]
    torch.testing.assert_close(*results, atol=2e-6, rtol=1e-5)


def _run(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(source, names)  # noqa: S102
    return names


NORM = """
class Norm(torch.nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
"""
NORMS = {
    "in steps": (
        "mean = x.mean(-1, keepdim=True)",
        "variance = ((x - mean) ** 2).mean(-1, keepdim=True)",
        "normal = (x - mean) / torch.sqrt(variance + self.eps)",
        "return self.weight * normal + self.bias",
    ),
    "centred": (
        "c = x - torch.mean(x, dim=-1, keepdim=True)",
        "v = (c * c).mean(dim=-1, keepdim=True)",
        "return self.bias + c * torch.rsqrt(v + self.eps) * self.weight",
    ),
    "by a root": (
        "m = x.mean(dim=-1, keepdim=True)",
        "v = (x - m).pow(2).mean(dim=-1, keepdim=True)",
        "return (x - m) / (v + self.eps) ** 0.5 * self.weight + self.bias",
    ),
    "all in one": (
        "c = x - x.mean(-1, keepdim=True)",
        "spread = (c * c).mean(-1, keepdim=True)",
        "return c / (spread + 1e-5).sqrt() * self.weight + self.bias",
    ),
    "by var": (
        "m = x.mean(-1, keepdim=True)",
        "v = x.var(-1, keepdim=True, unbiased=False)",
        "return (x - m) / (v + self.eps).sqrt() * self.weight + self.bias",
    ),
}


def norm(*lines: str) -> str:
    return HEAD + MARK + NORM + "".join(f"        {line}\n" for line in lines)


@pytest.mark.parametrize("lines", NORMS.values(), ids=NORMS)
def test_a_layer_norm_is_one_call_with_the_same_result(lines: tuple[str, ...]) -> None:
    source = norm(*lines)
    after = changed(one_operator, source)
    eps = "1e-05" if "1e-5" in lines[-1] else "self.eps"
    call = f"F.layer_norm(x, self.weight.shape, self.weight, self.bias, {eps})"
    assert after.split("forward(self, x):\n")[1] == f"        return {call}\n"
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    results = [_run(text)["Norm"](8)(x) for text in (source, after)]
    torch.testing.assert_close(*results, atol=2e-6, rtol=1e-5)


REFUSED = {
    "another formula": function("return 0.5 * x * (1 + torch.tanh(x))"),
    "another constant": function(
        "return 0.5 * x * (1 + torch.tanh(0.79 * (x + 0.044715 * x ** 3)))"
    ),
    "two tensors": function("return x * torch.sigmoid(y)"),
    "no tensor": function("return x / (1 + math.exp(-x))"),
    "another function": function("return x * sigmoid(x)"),
    "an unbiased variance": norm(
        "m = x.mean(-1, keepdim=True)",
        "v = x.var(-1, keepdim=True)",
        "return (x - m) / (v + self.eps).sqrt() * self.weight + self.bias",
    ),
    "another dimension": norm(*(one.replace("-1", "1") for one in NORMS["in steps"])),
    "a deviation": norm(
        "m = x.mean(-1, keepdim=True)",
        "s = x.std(-1, keepdim=True)",
        "return self.weight * (x - m) / (s + self.eps) + self.bias",
    ),
    "a weight of two dimensions": norm(*NORMS["in steps"]).replace(
        "torch.ones(width)", "torch.ones(width, 1)"
    ),
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_to_be_the_same_is_refused(source: str) -> None:
    with pytest.raises(PatchRefusedError, match="no line is certain"):
        changed(one_operator, source)


KEPT = {
    "reads y, too": function(
        "y = 0.7978845608 * (x + 0.044715 * x ** 3)", "print(y)", "return 0.5 * x * (1 + y.tanh())"
    ),
    "sets x in between": function(
        "y = 0.7978845608 * (x + 0.044715 * x ** 3)", "x.add_(1)", "return 0.5 * x * (1 + y.tanh())"
    ),
    "no import": function("return x * torch.sigmoid(x)")
    .replace("import torch\nfrom torch.nn import functional as F", "from torch import sigmoid")
    .replace("torch.sigmoid", "sigmoid"),
}


@pytest.mark.parametrize(("why", "source"), KEPT.items(), ids=KEPT)
def test_the_reason_is_reported(why: str, source: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(one_operator, source)


def test_the_planted_trainings_are_mended() -> None:
    source = (PLANTED / "mixer_gelu_and_norm_by_hand.py").read_text().replace("  # planted", "")
    source = source.replace("return normal", "return normal").replace(
        "images, labels = torch", "images, labels = torch", 1
    )
    marked = source.replace("torch.manual_seed(0)\n", "torch.manual_seed(0)  # here\n", 1)
    added = [line for line in difference(one_operator, marked) if line.startswith("+")]
    assert added == [
        '+ return nn.functional.gelu(x, approximate="tanh")',
        "+ return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)",
    ]


def test_parameters_that_are_set_together_are_known() -> None:
    source = (PLANTED / "gelu_by_hand.py").read_text().replace("  # planted", "")
    marked = source.replace("torch.manual_seed(0)\n", "torch.manual_seed(0)  # here\n", 1)
    assert (
        "+ return nn.functional.layer_norm(x, self.scale.shape, self.scale, self.shift, 1e-05)"
        in difference(one_operator, marked)
    )
