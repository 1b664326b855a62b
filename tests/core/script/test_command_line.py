"""The command of a run and its options; a source file, and what reads the values in it."""

import argparse
import ast
import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perftui.fixes.source.edits import edit_of
from perftui.fixes.source.patching import apply_edits
from perftui.script.command_line import (
    CommandOption,
    LaunchedScript,
    declared_options,
    launched_script,
    option_behind,
)
from perftui.script.names import later_reads, names_bound
from perftui.script.program import PatchRefusedError, parse_program, syntax_tree

END = "\nargs = p.parse_args()\nuse(args.x)\n"


def with_default(declared: str, value: object) -> str:
    """The declaration after the default of ``args.x`` is patched."""
    source = f"{declared}{END}".encode()
    program = parse_program(source)
    option = option_behind(program, program.calls("use")[0].args[0], type(value))
    if isinstance(option, str):
        raise PatchRefusedError(option)
    after, _ = apply_edits(source, [edit_of(option.decided(program), value)])
    return after.decode().removesuffix(END)


@pytest.mark.parametrize(
    ("declared", "value", "after"),
    [
        ("p.add_argument('--x', type=float, default=-1e-3)", 0.5, "default=0.5)"),
        ("p.add_argument('--x', type=float, default=1)", 0.5, "default=0.5)"),
        ("p.add_argument('--x', type=int, default=-1)", 4, "default=4)"),
        ("p.add_argument('--x', default='a')", "b", "default='b')"),
        ("p.add_argument('--x', default='a', type=str)", "it's", 'default="it\'s", type=str)'),
        ("p.add_argument('--x', action='store_true')", True, "'store_true', default=True)"),
        ("p.add_argument('--x', action='store_false')", False, "'store_false', default=False)"),
        ("p.add_argument('--x', action=argparse.BooleanOptionalAction)", True, ", default=True)"),
        (
            "p.add_argument(\n    '--x',\n    action=BooleanOptionalAction,\n    default=False,\n)",
            True,
            "    default=True,\n)",
        ),
    ],
)
def test_the_default_of_an_option_is_changed(declared, value, after) -> None:
    assert with_default(declared, value).endswith(after)


@pytest.mark.parametrize(
    ("declared", "value", "reason"),
    [
        ("p.add_argument('--x', type=int, default=1)", 0.5, "--x does not take one number"),
        ("p.add_argument('--x', type=int, default=1)", True, "--x is not a flag"),
        ("p.add_argument('--x', type=bool, default=True)", False, "--x is not a flag"),
        ("p.add_argument('--x', type=float)", 0.5, "--x has no default that is a number"),
        ("p.add_argument('--x', default=None)", "a", "--x has no default that is a string"),
        ("p.add_argument('--x', choices='ab')", "a", "--x does not take one string"),
        ("p.add_argument('--x', required=True, default='a')", "b", "no default"),
        ("p.add_argument('--x', action='store_true', default=on)", True, "no default that is True"),
        ("p.add_argument('--x', action='store_const', const=1)", 2, "one whole number"),
        ("p.add_argument('--x', action='count')", True, "--x is not a flag"),
        (
            "p.add_argument('--x', action='store_true')\n"
            "p.add_argument('--no-x', dest='x', action='store_false')",
            True,
            "2 options of this file store to args.x",
        ),
    ],
)
def test_a_default_that_is_not_certain_is_left_alone(declared, value, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        with_default(declared, value)


SCRIPT = """\
p.add_argument("-l", "--rate", type=float, default=0.1)
p.add_argument("-o", "--out-file", default="a")
p.add_argument("-a", "--amp", action="store_true")
p.add_argument("--no-log", action="store_false", dest="log")
p.add_argument("-p", "--pin", action=argparse.BooleanOptionalAction, default=False)
p.add_argument("--pinned", type=int, default=0)
p.add_argument("rest", nargs="*")
"""
OPTIONS = {option.dest: option for option in declared_options(parse_program(SCRIPT.encode()))}


def command(dest: str, value: object, *arguments: str) -> tuple[str, ...] | None:
    whole = ("python", "t.py", *arguments)
    given_ = CommandOption(whole, 2, OPTIONS[dest], OPTIONS.values()).with_value(value)
    return given_ and given_[2:]


@pytest.mark.parametrize(
    ("dest", "value", "arguments", "expected"),
    [
        ("rate", 0.5, (), ("--rate", "0.5")),
        ("rate", -0.5, ("x",), ("--rate=-0.5", "x")),
        ("rate", -0.5, ("-l", "1"), ("-l=-0.5",)),
        ("rate", 0.5, ("-l.1", "--ra=1"), ("-l0.5", "--ra=0.5")),
        ("rate", 0.5, ("-l1e-3",), None),
        ("out_file", "-b c", ("--out-file", "a"), ("--out-file=-b c",)),
        ("out_file", "b", ("-ofoo",), None),
        ("amp", True, ("-l", "1"), ("--amp", "-l", "1")),
        ("amp", True, ("x", "--amp", "--am"), ("x", "--amp", "--amp")),
        ("amp", False, ("x", "--amp", "y"), ("x", "y")),
        ("amp", False, (), ()),
        ("amp", True, ("-pa",), None),
        ("log", False, (), ("--no-log",)),
        ("log", True, ("--no-log",), ()),
        ("pin", True, ("--no-pin", "--", "--pin"), ("--pin", "--", "--pin")),
        ("pin", False, (), ("--no-pin",)),
        ("pin", True, ("--pinned", "1"), ("--pin", "--pinned", "1")),
    ],
)
def test_an_option_of_any_kind_is_given_in_the_command(dest, value, arguments, expected) -> None:
    assert command(dest, value, *arguments) == expected


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    exec(SCRIPT, {"p": made, "argparse": argparse})  # noqa: S102
    return made


WORDS = st.sampled_from(
    (
        *("-l", "--rate", "0.2", "--rate=1", "-l1", "-o", "-ox", "--out", "-a", "--amp", "-ap"),
        *("-pa", "--no-log", "--no-l", "--pin", "--no-pin", "-p", "--pinned", "--pinned=1"),
        *("x", "--", "-1"),
    )
)
VALUES = st.one_of(
    st.tuples(st.just("rate"), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just("out_file"), st.text()),
    st.tuples(st.sampled_from(["amp", "log", "pin"]), st.booleans()),
)


@pytest.mark.slow
@given(st.lists(WORDS, max_size=5), VALUES)
def test_the_script_reads_the_value_and_all_else_as_before(parser, arguments, wanted) -> None:
    dest, value = wanted
    try:
        before = vars(parser.parse_args(arguments))
    except SystemExit:
        assume(False)
    changed = command(dest, value, *arguments)
    assume(changed is not None)
    assert vars(parser.parse_args(list(changed))) == {**before, dest: value}


def test_the_kinds_are_read_from_the_declaration() -> None:
    assert {dest: option.kind for dest, option in OPTIONS.items()} == {
        "rate": float,
        "out_file": str,
        "amp": bool,
        "log": bool,
        "pin": bool,
        "pinned": int,
    }
    assert OPTIONS["pin"].negative == ("--no-pin",)
    assert ast.unparse(OPTIONS["amp"].call).startswith("p.add_argument('-a'")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("command", "script", "begin"),
    [
        ("python train.py --lr 1", "train.py", 2),
        ("/usr/bin/python3.11 -u train.py -u", "train.py", 3),
        ("python -uB -W ignore -Wdefault -X dev -Xutf8 train.py", "train.py", 9),
        ("python -uW ignore train.py", "train.py", 4),
        ("python --check-hash-based-pycs never train.py", "train.py", 4),
        ("python -O -m train -j 4", "train.py", 4),
        ("python -m package", "package/__main__.py", 3),
        ("torchrun --nproc-per-node 2 train.py -j 4", "train.py", 4),
        ("/opt/bin/torchrun --nproc_per_node=2 --standalone train.py", "train.py", 4),
        ("torchrun -m train -j 4", "train.py", 3),
        ("python -u -m torch.distributed.run --nnodes=1 train.py", "train.py", 6),
        ("./train.py -j 4", "train.py", 1),
        ("my-interpreter train.py", "train.py", 2),
    ],
)
def test_a_script_is_found_behind_options(here, command, script, begin) -> None:
    words = tuple(command.split())
    found = launched_script(words, here)
    word = None if words[begin - 1] in ("train", "package") else begin - 1
    assert found == LaunchedScript(here / script, begin, word)
    assert words[begin - 1].endswith((Path(script).name, "train", "package"))


@pytest.mark.parametrize(
    "command",
    [
        "python -c print() train.py",
        "python -",
        "python --later-option train.py",
        "python -m elsewhere.module",
        "python -m",
        "torchrun --later-option 1 train.py",
        "torchrun --no-python ./train.py",
        "torchrun --nproc-per-node 2",
        "accelerate launch train.py",
        "sh -c train.py",
        "python",
        "",
    ],
)
def test_what_is_not_certain_is_no_script(here, command) -> None:
    assert launched_script(tuple(command.split()), here) is None


SOURCE = Path(ast.__file__).read_bytes()


@pytest.fixture
def often_elsewhere() -> Iterator[None]:
    """Each garbage collection runs Python, in which the interpreter goes to another thread."""

    def collected(_phase: str, _info: dict[str, int]) -> None:
        for _ in range(100):
            pass

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    gc.callbacks.append(collected)
    yield
    gc.callbacks.remove(collected)
    sys.setswitchinterval(interval)


@pytest.mark.slow
@pytest.mark.usefixtures("often_elsewhere")
def test_threads_parse_at_the_same_time() -> None:
    with ThreadPoolExecutor(2) as pool:
        trees = list(pool.map(syntax_tree, [SOURCE] * 30))
    assert {len(tree.body) for tree in trees} == {len(ast.parse(SOURCE).body)}
    assert gc.isenabled()


def test_the_collector_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        with pytest.raises(SyntaxError):
            syntax_tree(b"def f(:")
        assert not gc.isenabled()
    finally:
        gc.enable()


READ = {
    "after it": "STATEMENT\nuse(x)  # read\n",
    "before it, in the next turn": "for i in y:\n    use(x)  # read\n    STATEMENT\n",
    "added to": "for i in y:\n    x += 1  # read\n    STATEMENT\n",
    "set anew in a branch only": "STATEMENT\nif c:\n    x = 2\nuse(x)  # read\n",
    "set anew in a loop that may not turn": "STATEMENT\nfor i in y:\n    x = 2\nuse(x)  # read\n",
    "set anew from itself": "STATEMENT\nx = x + 1  # read\n",
    "in a function that runs later": "STATEMENT\ndef f():\n    return x  # read\nf()\n",
    "set before the loop": "x = 0\nfor i in y:\n    use(x)  # read\n    STATEMENT\n",
    "after the loop": "for i in y:\n    STATEMENT\nuse(x)  # read\n",
    "in a comprehension": "STATEMENT\nz = [x for i in y]  # read\n",
    "by a with that names another": "STATEMENT\nwith f() as g:\n    use(x)  # read\n",
}
NOT_READ = {
    "set anew before": "STATEMENT\nx = 2\nuse(x)\n",
    "set anew in each turn": "for i in y:\n    x = 2\n    use(x)\n    STATEMENT\n",
    "set anew by the loop": "STATEMENT\nfor x in y:\n    use(x)\n",
    "set anew by the loop around both": "for x in y:\n    use(x)\n    STATEMENT\n",
    "set anew by a with": "STATEMENT\nwith f() as x:\n    use(x)\n",
    "set anew with others": "STATEMENT\n(x, z) = 1, 2\nuse(x)\n",
    "another name of a comprehension": "STATEMENT\nz = [x for x in y]\n",
    "another name of a function": "STATEMENT\ndef f(x):\n    return x\n",
    "before it, once": "x = 0\nuse(x)\nSTATEMENT\n",
}


def lines_read(source: str) -> list[int]:
    """The lines that read what the statement gave ``x``."""
    program = parse_program(source.replace("STATEMENT", "if c: x = 1").encode())
    statement = next(
        node
        for node in program.statements()
        if isinstance(node, ast.If) and ast.unparse(node) == "if c:\n    x = 1"
    )
    assert names_bound(program, statement) == {"x"}
    return [use.lineno for use in later_reads(program, statement, "x")]


@pytest.mark.parametrize("source", READ.values(), ids=READ)
def test_a_value_is_read(source) -> None:
    source = dedent(source)
    marked = [at for at, line in enumerate(source.split("\n"), 1) if line.endswith("# read")]
    assert lines_read(source) == marked


@pytest.mark.parametrize("source", NOT_READ.values(), ids=NOT_READ)
def test_another_value_is_read(source) -> None:
    assert lines_read(dedent(source)) == []


def test_what_a_comprehension_names_is_its_own() -> None:
    program = parse_program(b"y = [x for x in z]\nfor a, b in c:\n    d[0] = e.f = 1\n")
    first, second = program.tree.body
    assert names_bound(program, first) == {"y"}
    assert names_bound(program, second) == {"a", "b"}
