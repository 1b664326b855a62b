"""Which line of the user's own source is meant, where its text alone tells."""

from collections.abc import Callable
from pathlib import Path

import pytest

from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.source.lines import LineShare
from perftui.facts.source.operator_lines import (
    at,
    line_of,
    made_where,
    model_line,
    second_call,
    with_line,
)
from perftui.facts.source.source_calls import (
    call_of,
    call_repeated,
    line_that_keeps_graph,
    loop_of,
    matching_line,
)
from perftui.facts.step.uneven_steps import growing_steps
from tests.core.diagnosis.runs import joined, script_run, step_table

Script = Callable[[str], Facts]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Facts of a run of a script with that text, of which no sample was taken."""
    return lambda text: Facts(script_run(tmp_path, text))


def line(found: LineShare | None) -> int | None:
    return found.line if found else None


SORTS = """
def penalty(weights):
    return sum(torch.linalg.svdvals(one)[0] for one in weights)
def rank(x, y):
    x = x.sort()
    return x, y.sort()
"""


@pytest.mark.parametrize(
    ("operator", "expected"),
    [("aten::linalg_svdvals", 3), ("aten::sort", None), ("aten::sort_", None), ("aten::mm", None)],
)
def test_the_only_call_of_an_operator_is_found(
    script: Script, operator: str, expected: int | None
) -> None:
    assert line(call_of(script(SORTS), operator)) == expected


CHECKS = """
for inputs in loader:
    loss = model(inputs).mul(2).norm()
    loss.backward()
    for parameter in model.parameters():
        if torch.isnan(parameter.grad).any():
            parameter.grad.zero_()
        parameter.grad.mul_(1 / parameter.grad.norm())
    total = sum(value * 2 for value in history)
"""


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        (("aten::isnan", "aten::any", "aten::is_nonzero", "aten::linalg_vector_norm"), 5),
        (("aten::isnan",), 5),
        (("aten::isnan", "aten::copy_", "aten::lerp_"), None),
        (("aten::add", "aten::sub"), None),
        (("aten::mul",), 5),
    ],
)
def test_the_loop_that_calls_most_operators_is_found(
    script: Script, operators: tuple[str, ...], expected: int | None
) -> None:
    assert line(loop_of(script(CHECKS), operators)) == expected


ROWS = """
def forward(self, x, lengths):
    for row, length in enumerate(lengths):
        mask[row, :length] = 1.0
    means = [x[row, :length].mean(0) for row, length in enumerate(lengths)]
    return [self.head(one.mean(0)[0]) for one in means]
"""


@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        (("aten::select", "aten::slice", "aten::fill_"), 3),
        (("aten::select", "aten::slice", "aten::mean"), 5),
        (("aten::select", "aten::slice"), None),
        (("aten::select",), None),
    ],
)
def test_a_loop_over_pieces_indexes_by_what_it_loops_over(
    script: Script, operators: tuple[str, ...], expected: int | None
) -> None:
    assert line(loop_of(script(ROWS), operators, pieces=True)) == expected


AGAIN = """
def update(policy, optimizer, seen, actions):
    found, values = policy(seen)
    loss = (found.log_prob(actions) * values).mean()
    show(loss)
    float(values), float(values)
    loss.backward()
    show(loss)
    greedy = policy(seen)[0]
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AGAIN, 9),
        (AGAIN.replace("show(loss)\n    float", "policy(seen)\n    float"), 9),
        (AGAIN.replace("greedy = policy(seen)", "greedy = policy(actions)"), None),
        (AGAIN.replace("show(loss)", "count(actions)"), None),
        (AGAIN.replace("loss.backward()", "pass"), None),
        ("def broken(:", None),
    ],
    ids=["behind backward", "thrice", "other arguments", "two repeat", "no backward", "no Python"],
)
def test_a_call_that_is_repeated_is_found(script: Script, text: str, expected: int | None) -> None:
    assert line(call_repeated(script(text))) == expected


CARRIED = """
for batch in loader:
    batch = batch.to(device)
    found, state = model(batch, state)
    loss = found.mean()
    loss = loss / 4
    steps += 1
    losses.append(loss.item())
    loss.backward(retain_graph=True)
"""
MODULE = """
class Memory(Module):
    def __init__(self):
        self.kept = make(self.kept)
    def forward(self, x):
        self.calls += 1
        self.kept = 0.9 * self.kept + self.layer(x).mean(0)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CARRIED, 4),
        (CARRIED.replace("state = model", "_ = model"), None),
        (CARRIED.replace("model(batch, state)", "model(batch, state.detach())"), None),
        (CARRIED.replace("state = model(batch, state)", "_ = model(batch)\n    total += found"), 5),
        (CARRIED.replace("steps += 1", "average = decay * average + found"), None),
        (CARRIED.replace("(batch, state)", "(batch)").replace("loss.item()", "loss"), 8),
        (CARRIED.replace("loss.backward(retain_graph=True)", "pass"), None),
        (MODULE, 7),
        (MODULE.replace("self.layer(x)", "self.layer(x).detach()"), None),
    ],
    ids=[
        "hidden state",
        "nothing",
        "detached",
        "sum",
        "two",
        "list",
        "no backward",
        "module",
        "module detaches",
    ],
)
def test_the_line_that_keeps_a_graph_is_found(
    script: Script, text: str, expected: int | None
) -> None:
    assert line(line_that_keeps_graph(script(text))) == expected


def test_modules_beside_the_script_are_searched_too_and_no_changed_file_is(
    script: Script, tmp_path: Path
) -> None:
    (tmp_path / "settings.py").write_text('import os\nos.environ["OMP_NUM_THREADS"] = "1"\n')
    (tmp_path / "unused.py").write_text('OMP_NUM_THREADS = "1"\n')
    facts = script("import json\nfrom settings import SEED\n")
    assert matching_line(facts, "OMP_NUM_THREADS") == LineShare(str(tmp_path / "settings.py"), 2)
    assert matching_line(script("import json\n"), "OMP_NUM_THREADS") is None
    facts = Facts(script_run(tmp_path, SORTS, started_ns=1))
    assert call_of(facts, "aten::linalg_svdvals") is None


def test_an_operator_without_samples_is_placed_by_the_text_and_only_probably(
    script: Script,
) -> None:
    facts = script(SORTS)
    place = with_line(facts, Place(operator="aten::linalg_svdvals"), None)
    assert place.line == 3
    unknown = Place(operator="aten::addmm")
    assert with_line(facts, unknown, None) is unknown
    assert at(call_of(script(SORTS), "aten::linalg_svdvals")) == " probably at train.py:3"


def test_the_only_line_that_runs_backward_is_its_place_and_that_of_its_growth(
    script: Script, tmp_path: Path
) -> None:
    assert line(line_of(script(CHECKS), "backward")) == 4
    assert line_of(script(CHECKS), "forward") is None
    assert line_of(script(CHECKS + "loss.backward()"), "backward") is None
    steps = joined(*(step_table(1, {"forward": 10, "backward": 10 + at / 2}) for at in range(100)))
    found = growing_steps(Facts(script_run(tmp_path, CHECKS, steps=steps)))
    assert line(found.line) == 4


MODEL = """
def build(width):
    return Net(width)
model: Net = build(64).cuda()
head = Head()
model, data = model.to(memory_format=last), data.to(memory_format=last)
model = compile(model)
optimizer = SGD(model.parameters(), lr=0.1)
for x in data:
    loss = model(x).mean()
    other = head(model.features(x))
"""


def test_a_model_is_made_where_its_variable_first_gets_what_a_call_returns(script: Script) -> None:
    facts = script(MODEL)
    found = model_line(facts)
    assert (line(found), found and found.function) == (4, "model")
    assert made_where(facts, Place(operator="aten::mm")).line == 4
    path = found.file if found else ""
    assert made_where(facts, Place(file=path, line=10)).line == 4
    # Another model, and a part of this one.
    assert made_where(facts, Place(file=path, line=11)).line == 11


@pytest.mark.parametrize(
    "text",
    [
        "generator = Net()\ncritic = Net()\nSGD([*generator.parameters(), *critic.parameters()])",
        "def trained(model):\n    return SGD(model.parameters())",
        "model = Net()",
    ],
)
def test_of_several_models_or_none_the_line_is_unknown(script: Script, text: str) -> None:
    facts = script(text)
    assert model_line(facts) is None
    assert made_where(facts, Place(operator="aten::mm")) == Place(operator="aten::mm")


def test_a_model_of_self_is_known_by_that_name(script: Script) -> None:
    text = "class T:\n  def __init__(self):\n    self.net = Net()\n    SGD(self.net.parameters())\n"
    assert line(model_line(script(text))) == 3


TWICE = """
class Trainer:
    def __init__(self):
        self.steps, self.net = 9, Net()
        self.opt = SGD(self.net.parameters())
    def loss(self, x, y):
        return cross_entropy(self.net(x), y)
    def accuracy(self, x, y):
        return (self.net(x).argmax(-1) == y).sum()
"""


def test_a_model_that_two_lines_call_is_called_again_at_the_later(script: Script) -> None:
    assert line(second_call(script(TWICE))) == 9
    assert second_call(script(TWICE + "        self.net(y)\n")) is None
    assert second_call(script(TWICE.replace("self.net(x).argmax", "x.argmax"))) is None
    assert second_call(script("def loss(net, x):\n    return net(x)\n")) is None
