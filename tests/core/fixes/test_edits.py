"""Edits of a file: made in its text, and proved on its syntax tree."""

import ast
import codecs
import contextlib
import io
import re
import tokenize
import warnings
from textwrap import dedent

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perftui.fixes.source.edits import (
    AddKeyword,
    Edit,
    RemoveKeyword,
    ReplaceLiteral,
    WrapBlock,
    edit_of,
    first_line,
    insert_after_imports,
    insert_behind,
    literal_text,
    remove,
    wrap,
)
from perftui.fixes.source.patching import apply_edits, verify_edits
from perftui.script.names import module_name
from perftui.script.program import PatchRefusedError, parse_program
from perftui.script.training import statement_at

SIMPLE = (
    *("x = 1", "y = f(x)  # note", "a = 1; b = 2", "if x: pass", "pass", "del q ;"),
    *('s = """a\n  b"""', "z = (1,\n     2)", "t = x \\\n    + y", "é = 'ß'"),
    *("@deco\ndef g(): return 1", "call(\n  1,  # one\n\t)", 'w = f"{x}"', "'\\\nabout'"),
)
BETWEEN = ("", "# about", "\f", "    ", "   # odd")
HEADERS = ("if x:", "for i in y:  # each", "def f(a):", "class C(B):", "while True :", "with o:")
TOPS = ("", '"""about"""\n', "#!/usr/bin/python\n", "from __future__ import annotations\n", "\f\n")
ENCODINGS = {"utf-8": "", "utf-8-sig": "", "latin-1": "# -*- coding: latin-1 -*-\n"}


@st.composite
def blocks(draw, unit: str, indent: str = "", depth: int = 0) -> str:
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        lines += draw(st.lists(st.sampled_from(BETWEEN), max_size=2))
        if depth < 2 and draw(st.integers(0, 3)) == 0:
            lines.append(indent + draw(st.sampled_from(HEADERS)))
            lines.append(draw(blocks(unit, indent + unit, depth + 1)))
        else:
            text = draw(st.sampled_from(SIMPLE))
            # A decorated function begins on two lines; of the others the rest may stand anywhere.
            begun = text.replace("\n", f"\n{indent}") if text.startswith("@") else text
            lines.append(indent + begun)
    return "\n".join(lines)


@st.composite
def programs(draw) -> bytes:
    encoding, cookie = draw(st.sampled_from(sorted(ENCODINGS.items())))
    body = draw(blocks(draw(st.sampled_from(["    ", "  ", "\t", "   "]))))
    text = cookie + draw(st.sampled_from(TOPS)) + body + draw(st.sampled_from(["", "\n", "\n\n"]))
    source = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode(encoding)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "program", "exec")
    except SyntaxError:
        assume(False)
    return source


def made(source: bytes, *edits: Edit) -> bytes:
    return apply_edits(source, edits)[0]


def lines_of(source: bytes) -> list[bytes]:
    return re.split(rb"(?<=\n)", source)


def comments(source: bytes) -> list[str]:
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def is_subsequence(part: bytes, whole: bytes) -> bool:
    left = iter(whole)
    return all(byte in left for byte in part)


class Without(ast.NodeTransformer):
    """Takes ``print(0)`` out of a program, and puts what stands under ``with open(0)`` in place."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if ast.unparse(node) == "print(0)" else node

    def visit_With(self, node: ast.With) -> ast.With | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if ast.unparse(node.items[0]) == "open(0)" else node


def tree(source: bytes) -> str:
    return ast.dump(Without().visit(ast.parse(source)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(programs(), st.data())
def test_an_inserted_line_is_all_that_is_new(source: bytes, data: st.DataObject) -> None:
    program = parse_program(source)
    statement = data.draw(st.sampled_from(program.statements()))
    try:
        after = made(source, insert_behind(program, statement, "print( 0)"))
    except PatchRefusedError:
        assume(False)
    new = lines_of(after)
    at = next(i for i, line in enumerate(new) if line.strip() == b"print( 0)")
    rest = b"".join([*new[:at], *new[at + 1 :]])
    assert rest == source or rest.rstrip(b"\r\n") == source, "an end of the last line at most"
    assert tree(after) == tree(source)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(programs(), st.data())
def test_a_wrapped_block_is_indented_and_nothing_else(source: bytes, data: st.DataObject) -> None:
    program = parse_program(source)
    statement = data.draw(st.sampled_from(program.statements()))
    block = program.block(statement)
    end = data.draw(st.sampled_from(block[block.index(statement) :]))
    first = first_line(statement)
    try:
        after = made(source, wrap(program, statement, end, "with open( 0)"))
    except PatchRefusedError:
        assume(False)
    old, new = (lines_of(text.removeprefix(codecs.BOM_UTF8)) for text in (source, after))
    at = next(i for i, line in enumerate(new) if line.strip() == b"with open( 0):")
    outer = new.pop(at).partition(b"with")[0]
    assert len(new) == len(old)
    assert outer == re.match(rb"[ \t]*", old[first - 1])[0]
    inner = re.match(rb"[ \t]*", new[at])[0]
    for number, (before, now) in enumerate(zip(old, new, strict=True), 1):
        if before != now:
            assert first <= number <= (end.end_lineno or first)
            assert now == inner + before.removeprefix(outer)
    assert tree(after) == tree(source)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(programs(), st.data())
def test_a_statement_taken_out_leaves_the_other_lines_as_they_are(
    source: bytes, data: st.DataObject
) -> None:
    program = parse_program(source)
    simple = [node for node in program.statements() if not hasattr(node, "body")]
    assume(simple)
    statement = data.draw(st.sampled_from(simple))
    try:
        after = made(source, remove(program, statement))
    except PatchRefusedError:
        assume(False)
    old, new = (lines_of(text.removeprefix(codecs.BOM_UTF8)) for text in (source, after))
    taken = slice(statement.lineno - 1, statement.end_lineno)
    if len(program.block(statement)) > 1:
        # The last line may get the end that it lacked.
        assert [line.rstrip(b"\r\n") for line in new] == [
            line.rstrip(b"\r\n") for line in [*old[: taken.start], *old[taken.stop :]]
        ]
    else:
        assert b"pass" in new[taken.start]
        assert new[: taken.start] == old[: taken.start]


@settings(max_examples=30, deadline=None)
@given(programs())
def test_a_line_after_the_imports_comes_before_what_the_file_does(source: bytes) -> None:
    program = parse_program(source)
    head = [isinstance(node, ast.ImportFrom) for node in program.tree.body]
    if not any(head):
        with pytest.raises(PatchRefusedError, match="no imports"):
            insert_after_imports(program, "print(0)")
        return
    after = made(source, insert_after_imports(program, "print(0)"))
    body = ast.parse(after).body
    assert ast.unparse(body[head.index(True) + 1]) == "print(0)"
    assert tree(after) == tree(source)


VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.text(st.characters(exclude_categories=["Cs"])),
)
SEPARATORS = (", ", ",", " ,", ",\n    ", ",  # why\n    ", ",\n\n  # own\n\t", "\n , ")
ENDS = ("", ",", " , ", ",\n", "\n    ", ",  # last\n    ", ", # c\n  # end\n", "  # last\n")


@st.composite
def calls(draw) -> tuple[bytes, list[str]]:
    """A program with one call ``f(...)``, and its keywords."""
    names = draw(st.lists(st.sampled_from("abcde"), unique=True, max_size=4))
    equals = draw(st.sampled_from(["=", " = "]))
    values = draw(st.lists(st.sampled_from(["1", "(2)", "'x'", "g(1)"]), min_size=4, max_size=4))
    parts = [f"{name}{equals}{value}" for name, value in zip(names, values, strict=False)]
    parts = draw(st.sampled_from([[], ["p"], ["p", "*q"]])) + parts
    parts += draw(st.sampled_from([[], ["**kw"]]))
    text = draw(st.sampled_from(["f(", "f( ", "f (", "f(\n    ", "f(  # call\n\t"]))
    for number, part in enumerate(parts):
        text += (draw(st.sampled_from(SEPARATORS)) if number else "") + part
    text += draw(st.sampled_from(ENDS)) if parts else ""
    before, after = draw(st.sampled_from([("", ""), ("x = [h(1), ", "]  # é"), ("if y: ", ";z=1")]))
    text = f"{before}{text}){after}{draw(st.sampled_from(['', chr(10)]))}"
    encoding, cookie = draw(st.sampled_from(sorted(ENCODINGS.items())))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return (cookie + text).replace("\n", newline).encode(encoding), names


def span_of(source: bytes) -> tuple[int, int, int, int]:
    program = parse_program(source)
    return program.span(program.calls("f")[0])


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(calls(), st.one_of(st.integers(), st.booleans(), st.none()))
def test_an_added_keyword_leaves_every_byte_and_can_be_taken_out(call, value) -> None:
    source, _ = call
    after = made(source, AddKeyword(span_of(source), "new", literal_text(value)))
    (given_,) = [k for k in parse_program(after).calls("f")[0].keywords if k.arg == "new"]
    assert ast.literal_eval(given_.value) == value
    assert is_subsequence(source, after)
    assert comments(after) == comments(source)
    try:
        again = made(after, RemoveKeyword(span_of(after), "new"))
    except PatchRefusedError:
        assert comments(source), "a comment behind it may be about it"
        return
    assert tree(again) == tree(source)
    assert comments(again) == comments(source)
    if parse_program(source).calls("f")[0].args and not comments(source):
        assert again == source


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(calls(), st.data())
def test_a_removed_keyword_takes_nothing_along(call, data: st.DataObject) -> None:
    source, names = call
    assume(names)
    name = data.draw(st.sampled_from(names))
    edit = RemoveKeyword(span_of(source), name)
    try:
        after = made(source, edit)
    except PatchRefusedError:
        assume(False)
    assert is_subsequence(after, source)
    assert comments(after) == comments(source)
    (kept,) = parse_program(source).calls("f")
    kept.keywords = [keyword for keyword in kept.keywords if keyword.arg != name]
    assert ast.dump(kept) == ast.dump(parse_program(after).calls("f")[0])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(VALUES, VALUES, st.sampled_from(sorted(ENCODINGS)), st.sampled_from(["\n", "\r\n"]))
def test_a_literal_gives_way_to_any_other(old, new, encoding, newline) -> None:
    text = f"{ENCODINGS[encoding]}\f\nx = f('é', ( {{}} ),\n  y)  # z".replace("\n", newline)
    try:
        source = text.format(literal_text(old, "'")).encode(encoding)
        expected = text.format(literal_text(new, "'" if isinstance(old, str) else '"')).encode(
            encoding
        )
    except UnicodeEncodeError:
        assume(False)
    program = parse_program(source)
    now = program.literal(program.calls("f")[0].args[1])
    assert (now.value, type(now.value)) == (old, type(old))
    after = made(source, edit_of(now, new))
    if literal_text(new)[0] not in "\"'":
        assert after == expected
    value = ast.literal_eval(parse_program(after).calls("f")[0].args[1])
    assert (value, type(value)) == (new, type(new))


def test_text_that_the_encoding_lacks_is_refused() -> None:
    source = b"# -*- coding: latin-1 -*-\nf('\xe9')\n"
    program = parse_program(source)
    edit = edit_of(program.literal(program.calls("f")[0].args[0]), "€")
    with pytest.raises(PatchRefusedError, match="encoding"):
        made(source, edit)
    with pytest.raises(PatchRefusedError, match="inf cannot be written"):
        literal_text(float("inf"))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(calls(), st.sampled_from(["g(1)", "1", "f", "p", "x", "'x'", "z"]))
def test_whatever_else_changes_is_found(call, part: str) -> None:
    """The proof of an edit against a file in which something else was changed too."""
    source, _ = call
    edit = AddKeyword(span_of(source), "new", "1")
    after = made(source, edit)
    verify_edits(source, after, [edit])
    body = after[after.index(b"f") :]
    changed = after[: after.index(b"f")] + body.replace(part.encode(), b"other", 1)
    assume(changed != after)
    for claimed, edits in ((after, []), (source, [edit]), (changed, [edit]), (after, [edit, edit])):
        with pytest.raises(PatchRefusedError, match=r"something else|does not parse"):
            verify_edits(source, claimed, edits)


CALL, NUMBER = (1, 0, 1, 9), (1, 2, 1, 3)


@pytest.mark.parametrize(
    "edits",
    [
        [AddKeyword(NUMBER, "a", "1")],
        [AddKeyword(CALL, "b", "1")],
        [RemoveKeyword(CALL, "a")],
        [AddKeyword(CALL, "a", "1"), AddKeyword(CALL, "a", "2")],
        [ReplaceLiteral(CALL, "2")],
        [ReplaceLiteral(NUMBER, "2"), ReplaceLiteral(NUMBER, "3")],
    ],
    ids=["no call", "given", "not given", "twice", "no literal", "replaced twice"],
)
def test_an_edit_that_cannot_be_made_is_refused(edits) -> None:
    with pytest.raises(PatchRefusedError, match="something else"):
        made(b"f(1, b=2)\n", *edits)


def text_with(source: str, edit: Edit) -> str:
    return apply_edits(source.encode(), [edit])[0].decode()


def with_precision(source: str) -> str:
    program = parse_program(source.encode())
    line = f'{module_name(program, "torch")}.set_float32_matmul_precision("high")'
    return text_with(source, insert_after_imports(program, line))


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
        (17, "test()", "        def test(): return net\n"),
    ],
)
def test_a_line_is_put_after_a_statement(line, text, after) -> None:
    indent = {4: "    ", 7: "        ", 8: "        ", 17: "        "}.get(line, "            ")
    at = LOOP.index(after) + len(after)
    program = parse_program(LOOP.encode())
    around = [one for one in program.statements() if one.lineno <= line <= one.end_lineno]
    statement = max(around, key=lambda one: (one.lineno, -one.col_offset))
    expected = f"{LOOP[:at]}{indent}{text}\n{LOOP[at:]}"
    assert text_with(LOOP, insert_behind(program, statement, text)) == expected


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
    program = parse_program(LOOP.encode())
    with pytest.raises(PatchRefusedError, match=reason):
        insert_behind(program, statement_at(program, line), text)


def test_imports_from_the_future_stay_first() -> None:
    program = parse_program(b'"""a"""\nfrom __future__ import x\nimport y\n')
    with pytest.raises(PatchRefusedError, match="before an import from __future__"):
        insert_behind(program, program.tree.body[0], "print()")
    with pytest.raises(PatchRefusedError, match="docstring"):
        wrap(program, program.tree.body[0], program.tree.body[0], "with open(0)")
    with pytest.raises(PatchRefusedError, match="from __future__ cannot be moved"):
        wrap(program, *program.tree.body[1:], "with open(0)")


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


def wrapped(source: bytes, first: int, last: int, header: str) -> WrapBlock:
    """The statements from the one at the line ``first`` to the one that ends at ``last``."""
    program = parse_program(source)
    begin = statement_at(program, first)
    end = next(node for node in program.block(begin) if node.end_lineno == last)
    return wrap(program, begin, end, header)


@pytest.mark.parametrize(("before", "after", "lines"), WRAPPED.values(), ids=WRAPPED)
def test_a_block_is_put_under_a_with(before, after, lines) -> None:
    before, after = dedent(before), dedent(after)
    edit = wrapped(before.encode(), *lines, "with torch.autocast('cuda')")
    assert text_with(before, edit) == after


@pytest.mark.parametrize(
    ("lines", "header", "reason"),
    [
        ((7, 7), "with opt", "opt may not be defined"),
        ((17, 17), "with torch.x()", "does not begin its line"),
    ],
)
def test_what_is_no_block_is_not_wrapped(lines, header, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        wrapped(LOOP.encode(), *lines, header)


def test_a_line_of_several_statements_is_wrapped_as_a_whole() -> None:
    program = parse_program(b"x = '''\n'''; y = 1\nz = 2\n")
    with pytest.raises(PatchRefusedError, match="line of several statements"):
        wrap(program, *program.tree.body[1:], "with open(0)")
    program = parse_program(b"a = 1; b = 2\n")
    assert text_with("a = 1; b = 2\n", wrap(program, *program.tree.body, "with open(0)")) == (
        "with open(0):\n    a = 1; b = 2\n"
    )


def test_a_string_over_lines_says_the_same_or_is_refused() -> None:
    text = "print(f'''{\n\ty=}''')\n"
    source = f"import torch\nif x:\n\ty = 1\n\t{text}"
    edit = wrapped(source.encode(), 3, 5, "with torch.no_grad()")
    # From Python 3.12 on the parts of such a string are tokens of their own.
    with contextlib.suppress(PatchRefusedError):
        assert text_with(source, edit).endswith(f"\n\t\t{text}")
