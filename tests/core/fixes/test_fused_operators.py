"""Layers that are written out, in one operator each."""

from typing import Any

import pytest

from perftui.fixes.compilation import attention_fused, elementwise_fused
from perftui.script.program import PatchRefusedError
from tests.core.fixes.test_line_changes import PLANTED, changed, difference, executed

MODEL = "import math\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
WIDTH, HEADS, LENGTH = 16, 4, 10

CLASS = """
class Attention(nn.Module):
    def __init__(self, dim: int, heads: int, length):
        super().__init__()
        self.heads = heads
        head_dim = dim // heads
        self.scale = head_dim ** -0.5
        self.drop = nn.Dropout(0.5)
        self.attend = nn.Softmax(dim=-1)
        causal = torch.tril(torch.ones(length, length)).view(1, 1, length, length)
        self.register_buffer("mask", causal)
        self.register_buffer("window", torch.ones(length, length).tril().triu(-2))

    def forward(self, q, k, v):  # here
        length = q.shape[2]
"""


def method(*lines: str) -> str:
    return MODEL + CLASS + "".join(f"        {line}\n" for line in lines)


def call(*lines: str) -> str:
    """The fused call that is written for ``lines``."""
    after = changed(attention_fused.plan, method(*lines))
    return next(line.strip() for line in after.split("\n") if "scaled_dot_product" in line)


SDPA = "F.scaled_dot_product_attention"
SCORES = "s = q @ k.transpose(-2, -1)"

SAME = {
    "one line": (
        ("return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v",),
        f"return {SDPA}(q, k, v)",
    ),
    "step by step": (
        (f"{SCORES} * self.scale", "s = s.softmax(-1)", "s = s @ v", "return s"),
        f"s = {SDPA}(q, k, v, scale=self.scale)",
    ),
    "by matmul": (
        (
            "kt = k.mT",
            "s = torch.matmul(q, kt)",
            "p = F.softmax(s / 3, dim=-1)",
            "return p.matmul(v)",
        ),
        f"return {SDPA}(q, k, v, scale=1.0 / (3))",
    ),
    "without a scale": (
        (SCORES, "return self.attend(s) @ v"),
        f"return {SDPA}(q, k, v, scale=1.0)",
    ),
    "queries that are scaled before": (
        ("q = q * self.scale", SCORES, "p = F.softmax(s, -1)", "return p @ v"),
        f"return {SDPA}(q, k, v, scale=1.0)",
    ),
    "keys that are turned before": (
        ("k = k + 1", "k = k.transpose(-1, -2)", "return F.softmax(q @ k, -1) @ v"),
        f"return {SDPA}(q, k, v, scale=1.0)",
    ),
    "the scale first": (
        ("return F.softmax(self.scale * (q @ k.mT), -1) @ v",),
        f"return {SDPA}(q, k, v, scale=self.scale)",
    ),
    "a root of the width": (
        ("d = k.shape[-1]", f"{SCORES} * d ** -0.5", "return F.softmax(s, -1) @ v"),
        f"return {SDPA}(q, k, v, scale=d ** (-0.5))",
    ),
    "a causal buffer": (
        (
            f"{SCORES} * (1.0 / math.sqrt(k.size(-1)))",
            "s = s.masked_fill(self.mask[:, :, :length, :length] == 0, float('-inf'))",
            "return F.softmax(s, dim=-1) @ v",
        ),
        f"return {SDPA}(q, k, v, is_causal=True)",
    ),
    "a causal mask made here": (
        (
            "later = torch.ones(length, length, device=q.device).triu(1).bool()",
            f"{SCORES} / math.sqrt(q.shape[-1])",
            "s = s.masked_fill(later, -torch.inf)",
            "return torch.softmax(s, -1) @ v",
        ),
        f"return {SDPA}(q, k, v, is_causal=True)",
    ),
    "a causal mask the other way": (
        (
            "seen = torch.tril(torch.ones((length, length), dtype=torch.bool))",
            f"{SCORES} * self.scale",
            "return F.softmax(s.masked_fill(~seen, -math.inf), -1) @ v",
        ),
        f"return {SDPA}(q, k, v, is_causal=True, scale=self.scale)",
    ),
    "another mask": (
        (
            f"{SCORES} * self.scale",
            "s = s.masked_fill(self.window[:length, :length] == 0, float('-inf'))",
            "return F.softmax(s, dim=-1) @ v",
        ),
        f"return {SDPA}(q, k, v, attn_mask=torch.logical_not("
        "self.window[:length, :length] == 0), scale=self.scale)",
    ),
    "a triangle one further": (
        (
            "later = torch.ones(length, length).triu(2).bool()",
            "s = (q @ k.mT).masked_fill(later, float('-inf'))",
            "return F.softmax(s, -1) @ v",
        ),
        f"return {SDPA}(q, k, v, attn_mask=torch.logical_not(later), scale=1.0)",
    ),
    "dropout of a layer": (
        (f"{SCORES} * self.scale", "p = self.drop(s.softmax(dim=-1))", "return p @ v"),
        f"return {SDPA}(q, k, v, dropout_p=self.drop.p if self.drop.training else 0.0, "
        "scale=self.scale)",
    ),
    "dropout by a function": (
        (SCORES, "p = F.dropout(F.softmax(s, -1), 0.1, self.training)", "return p @ v"),
        f"return {SDPA}(q, k, v, dropout_p=0.1 if self.training else 0.0, scale=1.0)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "wanted"), SAME.values(), ids=SAME)
def test_attention_is_one_call_with_the_same_result(lines: tuple[str, ...], wanted: str) -> None:
    assert call(*lines) == wanted
    results, gradients = zip(*(_computed(source) for source in _both(lines)), strict=True)
    torch = pytest.importorskip("torch")
    torch.testing.assert_close(results[0], results[1], atol=2e-6, rtol=2e-5)
    for before, after in zip(*gradients, strict=True):
        torch.testing.assert_close(before, after, atol=2e-6, rtol=2e-5)


def _both(lines: tuple[str, ...]) -> tuple[str, str]:
    source = method(*lines)
    return source, changed(attention_fused.plan, source)


def _computed(source: str) -> tuple[Any, list[Any]]:
    """The result in evaluation, without dropout, and the gradients of all that comes in."""
    torch = pytest.importorskip("torch")
    (names,) = executed(source)
    layer = names["Attention"](WIDTH, HEADS, LENGTH).eval()
    generator = torch.Generator().manual_seed(0)
    shape = (2, HEADS, LENGTH - 3, WIDTH // HEADS)
    given = [torch.randn(shape, generator=generator, requires_grad=True) for _ in range(3)]
    result = layer(*given)
    result.square().sum().backward()
    return result, [one.grad for one in given]


def test_statements_between_are_taken_out() -> None:
    after = changed(
        attention_fused.plan,
        method(f"{SCORES} * self.scale", "p = s.softmax(-1)", "y = p @ v", "return y"),
    )
    assert after.endswith(
        "        length = q.shape[2]\n"
        "        y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)\n"
        "        return y\n"
    )


OTHER_ATTENTION = {
    "weights that are returned": (
        (SCORES, "p = s.softmax(-1)", "return p @ v, p"),
        "line 22 reads p, too",
    ),
    "weights that are kept": (
        (SCORES, "p = s.softmax(-1)", "self.seen = p.detach()", "return p @ v"),
        "reads p, too",
    ),
    "scores that are read": ((SCORES, "m = s.max()", "return s.softmax(-1) @ v"), "reads s, too"),
    "a bias": ((f"{SCORES} + self.bias", "return s.softmax(-1) @ v"), "adds something"),
    "a bias before the mask": (
        (f"{SCORES} * self.scale", "s = s + b", "return s.softmax(-1) @ v"),
        "adds something",
    ),
    "a finite mask": (
        (SCORES, "s = s.masked_fill(m, -1e9)", "return s.softmax(-1) @ v"),
        "masked by -1000000000.0",
    ),
    "a mask of the scores": (
        (SCORES, "s = s.masked_fill(s == 0, -torch.inf)", "return s.softmax(-1) @ v"),
        "reads s, too",
    ),
    "a mask in a statement of its own": (
        (SCORES, "s.masked_fill_(m, -torch.inf)", "return s.softmax(-1) @ v"),
        "reads s, too",
    ),
    "another dimension": ((SCORES, "return s.softmax(-2) @ v"), "0 products of a softmax"),
    "another type": (
        (SCORES, "return torch.softmax(s, -1, dtype=torch.float32) @ v"),
        "0 products of a softmax",
    ),
    "keys that are not turned": (("return (q @ k).softmax(-1) @ v",), "may not transpose"),
    "turned by number": (("return (q @ k.transpose(2, 3)).softmax(-1) @ v",), "may not transpose"),
    "a temperature": (
        (f"{SCORES} * self.temperature", "return s.softmax(-1) @ v"),
        "self.temperature may not be a plain number",
    ),
    "queries that change in between": (
        (SCORES, "q = q + 1", "return s.softmax(-1) @ v * q"),
        "sets q in between",
    ),
    "values that change in place": (
        (SCORES, "p = s.softmax(-1)", "q.add_(1)", "return p @ v"),
        "sets q in between",
    ),
    "a view": (
        (SCORES, "y = s.softmax(-1) @ v", "return y.view(2, -1)"),
        "takes a view of the result",
    ),
    "a view at once": ((SCORES, "return (s.softmax(-1) @ v).view(2, -1)"), "takes a view"),
    "two of them": (
        ("a = (q @ k.mT).softmax(-1) @ v", "return (k @ q.mT).softmax(-1) @ v + a"),
        "2 products of a softmax",
    ),
    "in a branch": (
        (SCORES, "if m:", "    s = s + m", "return s.softmax(-1) @ v"),
        "adds something to the scores",
    ),
    "a second derivative": (
        (SCORES, "torch.autograd.grad(a, b, create_graph=True)", "return s.softmax(-1) @ v"),
        "second derivative",
    ),
}


@pytest.mark.parametrize(("lines", "why"), OTHER_ATTENTION.values(), ids=OTHER_ATTENTION)
def test_other_attention_is_refused(lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(attention_fused.plan, method(*lines))


def test_without_torch_in_the_file_it_is_refused() -> None:
    source = method(SCORES, "return s.softmax(-1) @ v")
    source = source.replace("import torch.nn.functional as F\n", "").replace("import torch\n", "")
    with pytest.raises(PatchRefusedError, match=r"no import|0 products"):
        changed(
            attention_fused.plan,
            source.replace("from torch import nn", "from torch.nn import Module"),
        )


@pytest.mark.parametrize(
    ("name", "line", "wanted"),
    [
        ("attention_by_hand.py", "scores = q @ k",
         "y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"),
        ("gpt_attention_by_hand.py", "y = F.softmax(",
         "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
    ],
)  # fmt: skip
def test_planted_attention_is_mended(name: str, line: str, wanted: str) -> None:
    source = (PLANTED / name).read_text().replace("  # planted", "")
    marked = "\n".join(
        f"{text}  # here" if text.strip().startswith(line) else text for text in source.split("\n")
    )
    after = changed(attention_fused.plan, marked)
    assert wanted in [text.strip() for text in after.split("\n")]
    assert "softmax" not in after.split("class Block")[0].split("class ")[1]


BRANCH = """
import math
import torch
from torch import nn
from torch.nn import functional as F

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn_dropout = nn.Dropout(config.dropout)
        size = config.block_size
        self.register_buffer("bias", torch.tril(torch.ones(size, size)).view(1, 1, size, size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            y = fused(q, k, v)
        else:
            # manual implementation of attention
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:,:,:T,:T] == 0, float('-inf'))
            att = F.softmax(att, dim=-1)  # here
            att = self.attn_dropout(att)
            y = att @ v # (B, nh, T, T) x (B, nh, T, hs) -> (B, nh, T, hs)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))
"""


def test_attention_in_a_branch_keeps_its_comments() -> None:
    lines = changed(attention_fused.plan, BRANCH).split("\n")
    at = lines.index("        else:")
    assert lines[at + 1 : at + 4] == [
        "            # manual implementation of attention",
        "            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, "
        "dropout_p=self.attn_dropout.p if self.attn_dropout.training else 0.0) "
        "# (B, nh, T, T) x (B, nh, T, hs) -> (B, nh, T, hs)",
        "        y = y.transpose(1, 2).contiguous().view(B, T, C)",
    ]


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
    after = changed(elementwise_fused.plan, source)
    assert after.split("def f(x):\n")[1] == f"    return {wanted}\n"
    torch = pytest.importorskip("torch")
    x = torch.linspace(-6, 6, 101)
    results = [names["f"](x) for names in executed(source, after)]
    torch.testing.assert_close(*results, atol=2e-6, rtol=1e-5)


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
    after = changed(elementwise_fused.plan, source)
    eps = "1e-05" if "1e-5" in lines[-1] else "self.eps"
    call = f"F.layer_norm(x, self.weight.shape, self.weight, self.bias, {eps})"
    assert after.split("forward(self, x):\n")[1] == f"        return {call}\n"
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
    results = [names["Norm"](8)(x) for names in executed(source, after)]
    torch.testing.assert_close(*results, atol=2e-6, rtol=1e-5)


OTHER_FORMULAS = {
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


@pytest.mark.parametrize("source", OTHER_FORMULAS.values(), ids=OTHER_FORMULAS)
def test_other_formulas_are_refused(source: str) -> None:
    with pytest.raises(PatchRefusedError, match="no line is certain"):
        changed(elementwise_fused.plan, source)


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
        changed(elementwise_fused.plan, source)


def test_the_planted_trainings_are_mended() -> None:
    source = (PLANTED / "mixer_gelu_and_norm_by_hand.py").read_text().replace("  # planted", "")
    marked = source.replace("torch.manual_seed(0)\n", "torch.manual_seed(0)  # here\n", 1)
    added = [line for line in difference(elementwise_fused.plan, marked) if line.startswith("+")]
    assert added == [
        '+ return nn.functional.gelu(x, approximate="tanh")',
        "+ return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)",
    ]


def test_parameters_that_are_set_together_are_known() -> None:
    source = (PLANTED / "gelu_by_hand.py").read_text().replace("  # planted", "")
    marked = source.replace("torch.manual_seed(0)\n", "torch.manual_seed(0)  # here\n", 1)
    assert (
        "+ return nn.functional.layer_norm(x, self.scale.shape, self.scale, self.shift, 1e-05)"
        in difference(elementwise_fused.plan, marked)
    )
