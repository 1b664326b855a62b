"""Lines that are inserted into a file, and blocks that are put under a ``with``."""

from __future__ import annotations

from textwrap import dedent

import pytest

from perftui.fixes.source.edits import Edit, insert_after, insert_after_imports, wrap
from perftui.fixes.source.patching import written
from perftui.script.names import module_name
from perftui.script.program import PatchRefusedError, parse_program


def made(source: str, edit: Edit) -> str:
    return written(source.encode(), [edit])[0].decode()


def with_precision(source: str) -> str:
    program = parse_program(source.encode())
    line = f'{module_name(program, "torch")}.set_float32_matmul_precision("high")'
    return made(source, insert_after_imports(program, line))


IMPORTS = {
    "the last one": (
        "import os\nimport torch\n\nx = 1\n",
        'import os\nimport torch\ntorch.set_float32_matmul_precision("high")\n\nx = 1\n',
    ),
    "by another name, past a docstring": (
        '"""About."""\nfrom __future__ import annotations\nimport torch as th  # here',
        '"""About."""\nfrom __future__ import annotations\nimport torch as th  # here\n'
        'th.set_float32_matmul_precision("high")',
    ),
    "over several lines": (
        "import torch.nn\r\nfrom x import (\r\n    y,\r\n    z,\r\n)\r\n"
        "# about f\r\ndef f(): ...\r\n",
        "import torch.nn\r\nfrom x import (\r\n    y,\r\n    z,\r\n)\r\n"
        'torch.set_float32_matmul_precision("high")\r\n# about f\r\ndef f(): ...\r\n',
    ),
    "not those further down": (
        "import torch\nx = 1\nimport os; y = 2\ndef f(): ...\nimport late\n",
        "import torch\nx = 1\nimport os; y = 2\n"
        'torch.set_float32_matmul_precision("high")\ndef f(): ...\nimport late\n',
    ),
}


@pytest.mark.parametrize(("before", "after"), IMPORTS.values(), ids=IMPORTS)
def test_a_line_is_put_after_the_imports(before, after) -> None:
    assert with_precision(before) == after


UNNAMED = {
    "none": "import os\n",
    "a part of it": "from torch import nn\nimport torch.nn as nn\n",
    "in a block": "import os\nif os:\n    import torch\n",
    "tried": "import os\ntry:\n    import torch\nexcept ImportError:\n    pass\n",
    "set": "import torch\ntorch = wrap(torch)\n",
    "deleted": "import torch\ndel torch\n",
    "too late": "import os\ndef f(): ...\nimport torch\n",
    "in a function": "import os\ndef f():\n    import torch\n",
}


@pytest.mark.parametrize("source", UNNAMED.values(), ids=UNNAMED)
def test_a_name_that_is_not_certain_refuses_the_line(source) -> None:
    reason = "torch may not be defined|no import of the file certainly gives torch a name"
    with pytest.raises(PatchRefusedError, match=reason):
        with_precision(source)


LOOP = """\
import torch

class Trainer:
    limit = 3

    def fit(self, net):
        opt = make(net)  # found
        for x in data:
            loss = net(
                x
            ); loss.backward()
            # the end
            text = '''
  kept
'''
        @torch.no_grad()
        def test(): return net
        if opt: step()
        return opt

if __name__ == "__main__": Trainer().fit(
    net)
"""


@pytest.mark.parametrize(
    ("line", "text", "after"),
    [
        (7, "opt.x()", "        opt = make(net)  # found\n"),
        (8, "torch.x(self, net)", "  kept\n'''\n"),
        (10, "loss.x()", "            ); loss.backward()\n"),
        (14, "print(text)", "  kept\n'''\n"),
        (4, "more = limit", "    limit = 3\n"),
        (16, "test()", "        def test(): return net\n"),
    ],
)
def test_a_line_is_put_after_a_statement(line, text, after) -> None:
    indent = {4: "    ", 7: "        ", 8: "        ", 16: "        "}.get(line, "            ")
    at = LOOP.index(after) + len(after)
    program = parse_program(LOOP.encode())
    assert (
        made(LOOP, insert_after(program, line, text)) == f"{LOOP[:at]}{indent}{text}\n{LOOP[at:]}"
    )


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (2, "print()", "there is no statement at line 2"),
        (19, "print()", "nothing after line 19 runs"),
        (18, "print()", "inside a statement|does not begin its line"),
        (21, "print()", "inside a statement|does not begin its line"),
        (7, "x.y()", "x may not be defined at line 7"),
        (7, "limit()", "limit may not be defined"),
        (7, "test()", "test may not be defined"),
        (8, "loss.x()", "loss may not be defined"),
        (4, "Trainer.x()", "Trainer may not be defined"),
    ],
)
def test_a_line_that_might_not_run_is_refused(line, text, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        insert_after(parse_program(LOOP.encode()), line, text)


def test_imports_from_the_future_stay_first() -> None:
    program = parse_program(b'"""a"""\nfrom __future__ import x\nimport y\n')
    with pytest.raises(PatchRefusedError, match="before an import from __future__"):
        insert_after(program, 1, "print()")
    with pytest.raises(PatchRefusedError, match="docstring"):
        wrap(program, 1, 1, "with open(0)")
    with pytest.raises(PatchRefusedError, match="from __future__ cannot be moved"):
        wrap(program, 2, 3, "with open(0)")


WRAPPED = {
    "one line": (
        "import torch\nloss = net(x)  # forward\n",
        "import torch\nwith torch.autocast('cuda'):\n    loss = net(x)  # forward\n",
        (2, 2),
    ),
    "tabs and comments": (
        """\
        import torch
        for x in data:
        \t# both
        \tout = net(x)
        \t\t# deeper

        \tloss = f(out,
        \t         x)
        \tloss.backward()
        """,
        """\
        import torch
        for x in data:
        \t# both
        \twith torch.autocast('cuda'):
        \t\tout = net(x)
        \t\t\t# deeper

        \t\tloss = f(out,
        \t\t         x)
        \tloss.backward()
        """,
        (4, 8),
    ),
    "a string over several lines": (
        "import torch\nif x:\n  y = '''\n  a\n'''\n  if y: pass\n  else:\n    z()\n",
        "import torch\nif x:\n  with torch.autocast('cuda'):\n    y = '''\n  a\n'''\n"
        "    if y: pass\n    else:\n      z()\n",
        (3, 8),
    ),
}


@pytest.mark.parametrize(("before", "after", "lines"), WRAPPED.values(), ids=WRAPPED)
def test_a_block_is_put_under_a_with(before, after, lines) -> None:
    before, after = dedent(before), dedent(after)
    edit = wrap(parse_program(before.encode()), *lines, "with torch.autocast('cuda')")
    assert made(before, edit) == after


@pytest.mark.parametrize(
    ("lines", "header", "reason"),
    [
        ((8, 9), "with torch.x()", "not statements of one block"),
        ((10, 11), "with torch.x()", "begin or end within a statement"),
        ((9, 10), "with torch.x()", "not statements of one block|within a"),
        ((4, 8), "with torch.x()", "not statements of one block"),
        ((7, 7), "with opt", "opt may not be defined"),
        ((2, 2), "with torch.x()", "not statements of one block"),
        ((17, 17), "with torch.x()", "does not begin its line"),
    ],
)
def test_what_is_no_block_is_not_wrapped(lines, header, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        wrap(parse_program(LOOP.encode()), *lines, header)


def test_a_line_of_several_statements_is_wrapped_as_a_whole() -> None:
    program = parse_program(b"x = '''\n'''; y = 1\nz = 2\n")
    with pytest.raises(PatchRefusedError, match="line of several statements"):
        wrap(program, 2, 3, "with open(0)")
    assert made("a = 1; b = 2\n", wrap(parse_program(b"a = 1; b = 2\n"), 1, 1, "with open(0)")) == (
        "with open(0):\n    a = 1; b = 2\n"
    )


def test_a_string_that_would_say_something_else_is_refused() -> None:
    source = "import torch\nif x:\n\ty = 1\n\tprint(f'''{\n\ty=}''')\n"
    edit = wrap(parse_program(source.encode()), 3, 5, "with torch.no_grad()")
    with pytest.raises(PatchRefusedError, match="something else"):
        made(source, edit)
