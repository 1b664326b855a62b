"""Who reads what a line gives: found where nobody does, or only rarely or at last."""

from textwrap import indent

import pytest

from perftui.script.program import parse_program
from perftui.script.unread import unread_at

STEP = "for step, (x, y) in enumerate(loader):\n"
READ = """\
loss.append(x.mean())
x = x.mean() + x
self.best = x.mean(); show(self.best)
buffer[0] = x.mean()
out = np.add(x, y, out=buffer)
out = metric(x, y)
out = queue.get()
out = writer.write(x.sum())
out = [k for k in range(x.sum())]; show(out)
seen = []; seen.append(x.mean()); show(seen)
_ = x.mean()
score = x.mean(); if y: best = score
score = x.mean(); if y: best, at = score, y
mask = x > 0; groups[mask.sum()].append(y)
"""
UNREAD = """\
out = x.mean()
out = F.relu(x) * 2; more = out.mean()
self.unused = x.mean()
seen = []; seen.append(x.mean())
pair = x.mean(), y; show(pair[1])
both = {'x': x.mean(), 'y': y}; show(both['y'])
"""


def how(text: str, line: int) -> str:
    found = unread_at(parse_program(text.encode()), line)
    return found.use.last if found else ""


@pytest.mark.parametrize(
    ("line", "expected"),
    [(line, "") for line in READ.splitlines()] + [(line, "never") for line in UNREAD.splitlines()],
)
def test_only_what_certainly_nothing_reads_is_named(line: str, expected: str) -> None:
    parts = indent("\n".join(line.split("; ")), "  ")
    text = f"import numpy as np\nimport torch.nn.functional as F\n{STEP}{parts}\n  y.backward()\n"
    lines = range(4, 4 + len(line.split("; ")))
    assert expected in (how(text, at) for at in lines)
    assert expected or not any(how(text, at) for at in lines)


ITEMS = """\
class Items:
    def __getitem__(self, i):
        wide = np.abs(self.x[i])
        return self.x[i], wide
for x, {name} in DataLoader(Items()):
    loss = net(x{more})
"""


def test_batches_of_a_loader_are_followed_to_its_loop() -> None:
    text = "import numpy as np\n" + ITEMS
    assert how(text.format(name="_", more=""), 4) == "never"
    assert how(text.format(name="wide", more=", wide"), 4) == ""
    text = text.replace("Items())", "Items(), collate_fn=mine)")
    assert how(text.format(name="_", more=""), 4) == ""


def test_a_result_is_read_rarely_or_only_at_last() -> None:
    rarely = f"{STEP}  x.backward()\n  y = x.mean()\n  if step % 9 == 0:\n    print(y)\n"
    assert how(rarely, 3) == "rare"
    assert how(rarely.replace("== 0:", "== 0:\n    pass\n  else:"), 3) == ""
    last = f"{STEP}  y = x.backward()\n  for _ in range(3):\n    y = x.mean()\n  print(y)\n"
    assert how(last, 4) == "last"
    assert how(last.replace("x.mean()", "x.mean()\n    if y: break"), 4) == ""


def test_what_a_choice_above_masks_away_is_computed_for_nobody() -> None:
    choice = "def forward(self, x):\n  best = self.gate(x).topk(1)\n"
    every = "  out = torch.stack([each(x) for each in self.experts])\n  return out * mask(best)\n"
    assert how(choice + every, 3) == "masked"
    assert how(choice.replace("topk", "mean") + every, 3) == ""
    assert how(choice + every.replace("each(x)", "each(x[best == i])"), 3) == ""
