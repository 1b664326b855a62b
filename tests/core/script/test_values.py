"""Values of arguments that stand elsewhere: followed to where they are written, as far as that is
certain, and what else reads them there is told."""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from perftui.fixes.data_loader import LOADER
from perftui.fixes.option import Patch
from perftui.fixes.source.patching import call_patch
from perftui.script.program import PatchRefusedError, parse_program
from perftui.script.templates import LocalValues, Match, Templates

HEAD = "from torch.utils.data import DataLoader\n"
MARK = "  # here"
PARSED = """\
p.add_argument("--w", type=int, default=0)
args = p.parse_args()
"""
LOADED = "x = DataLoader(data, num_workers=args.w)  # here\n"


def patch_of(path: Path, source: str, had: int | None = None, wanted: int = 2) -> Patch:
    """The patch of the call on the line that ends in ``# here``."""
    source = HEAD + dedent(source).lstrip("\n")
    line = next(at for at, text in enumerate(source.split("\n"), 1) if text.endswith(MARK))
    path.write_text(source.replace(MARK, ""))
    seen = {} if had is None else {"num_workers": had}
    return call_patch(path, line, LOADER, {"num_workers": wanted}, seen)


def written(path: Path, source: str, had: int | None = None) -> list[str]:
    """The lines that the patch puts in, without their indentation."""
    patch = patch_of(path, source, had)
    before = patch.before.decode().split("\n")
    return [line.strip() for line in patch.after.decode().split("\n") if line not in before]


CHANGED_DEFAULT = ['p.add_argument("--w", type=int, default=2)']

OPTIONS = {
    "what is logged by line": PARSED
    + "for k, v in sorted(vars(args).items()):\n    log.info(k, v)\n"
    + LOADED,
    "what is saved": PARSED + "json.dump(vars(args), f, indent=2)\n" + LOADED,
    "what a tracker is given": PARSED + "wandb.init(config=vars(args))\n" + LOADED,
    "what is saved beside weights": PARSED
    + "torch.save({'net': net.state_dict(), 'args': vars(args)}, f)\n"
    + LOADED,
    "what is kept to be read": PARSED + "all_of_it = vars(args)\nprint(all_of_it['w'])\n" + LOADED,
    "unpacked": PARSED + "net = Net(**vars(args))\n" + LOADED,
    "another default": "p.set_defaults(verbose=True)\n" + PARSED + LOADED,
    "another attribute by name": PARSED + "setattr(net, 'last', None)\n" + LOADED,
    "attributes of its own class": PARSED
    + "class Log:\n    def __init__(self, **kw):\n"
    + "        for k in kw:\n            setattr(self, k, kw[k])\n"
    + LOADED,
    "known and unknown": PARSED.replace(
        "args = p.parse_args()", "args, rest = p.parse_known_args()"
    )
    + LOADED,
    "the parser's own name": "args = parser()\nargs = args.parse_args()\n"
    "def parser():\n    p.add_argument('--w', type=int, default=0)\n    return p\n" + LOADED,
}


@pytest.mark.parametrize("source", OPTIONS.values(), ids=OPTIONS)
def test_an_option_counts_though_the_file_reads_all_of_them(path, source) -> None:
    assert [line.replace("'", '"') for line in written(path, source)] == CHANGED_DEFAULT


FUNCTION = """
def parse_option():
    p.add_argument("--w", type=int, default=0)
    opt = p.parse_args()
    opt.tag = f"w{opt.w}"
    return opt
def main():
    opt = parse_option()
    x = DataLoader(data, num_workers=opt.w)  # here
"""
OF_FUNCTIONS = {
    "by another name": FUNCTION.replace("opt = parse_option()", "args = parse_option()").replace(
        "num_workers=opt.w", "num_workers=args.w"
    ),
    "at once": FUNCTION.replace("    return opt\n", "    return p.parse_args()\n"),
    "kept in an object": """
        p.add_argument("--w", type=int, default=0)
        args = p.parse_args()
        class Trainer:
            def __init__(self, args):
                self.args = args
            def fit(self):
                x = DataLoader(data, num_workers=self.args.w)  # here
        """,
    "as a number": PARSED + LOADED.replace("args.w", "int(args.w)"),
    "handed on": """
        p.add_argument("--w", type=int, default=0)
        args = p.parse_args()
        def loader(data, batch, workers):
            return DataLoader(data, num_workers=workers)  # here
        train = loader(data, 4, workers=args.w)
        """,
}


@pytest.mark.parametrize("source", OF_FUNCTIONS.values(), ids=OF_FUNCTIONS)
def test_an_option_is_followed_through_functions(path, source) -> None:
    assert written(path, source) == CHANGED_DEFAULT


STILL_REFUSED = {
    "an entry of it": (PARSED + "vars(args)['w'] = 1\n" + LOADED, "set elsewhere"),
    "an entry of a kept one": (
        PARSED + "all_of_it = vars(args)\nall_of_it['w'] = 1\n" + LOADED,
        "set elsewhere",
    ),
    "given to a function": (PARSED + "adapt(vars(args))\n" + LOADED, "set elsewhere"),
    "returned": (PARSED + "def all_of_it():\n    return vars(args)\n" + LOADED, "set elsewhere"),
    "its __dict__": (PARSED + "args.__dict__.update(more)\n" + LOADED, "set elsewhere"),
    "a default of it": (PARSED + "p.set_defaults(w=4)\n" + LOADED, "set elsewhere"),
    "defaults from a file": (PARSED + "p.set_defaults(**config)\n" + LOADED, "set elsewhere"),
    "by name": (PARSED + "setattr(args, 'w', 4)\n" + LOADED, "set elsewhere"),
    "by a computed name": (PARSED + "setattr(args, key, 4)\n" + LOADED, "set elsewhere"),
    "a function that rewrites it": (
        FUNCTION.replace("    return opt\n", "    opt.w = 3\n    return opt\n"),
        "set elsewhere",
    ),
    "a function with another result": (
        FUNCTION.replace("    return opt\n", "    if y:\n        return other\n    return opt\n"),
        "may not come from parse_args",
    ),
    "a function that is given it": (
        FUNCTION.replace("def parse_option():", "def parse_option(opt):"),
        "may not come from parse_args",
    ),
    "a function of another file": (
        "from options import parse_option\nargs = parse_option()\n" + LOADED,
        "may not come from parse_args",
    ),
}


@pytest.mark.parametrize(("source", "reason"), STILL_REFUSED.values(), ids=STILL_REFUSED)
def test_an_option_that_something_else_may_set_is_left_alone(path, source, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        patch_of(path, source)


FOLLOWED = {
    "a variable of the same name elsewhere": (
        "def g():\n    w = 8\ndef f():\n    w = 0\n"
        "    return DataLoader(d, num_workers=w)  # here\n",
        None,
        ["w = 2"],
    ),
    "a variable under a condition": (
        "if big:\n    w = 0\nx = DataLoader(data, num_workers=w)  # here\n",
        None,
        ["w = 2"],
    ),
    "the call that the run can have had": (
        "def f(d, w):\n    return DataLoader(d, num_workers=w)  # here\n"
        "a = f(1, 4)\nb = f(2, w=0)\n",
        4,
        ["a = f(1, 2)"],
    ),
    "an attribute of its object": (
        "class C:\n    w: int = 0\ndef f():\n    c = C()\n"
        "    x = DataLoader(d, num_workers=c.w)  # here\n",
        None,
        ["w: int = 2"],
    ),
    "an entry of a dict": (
        "config = {'lr': 1, 'w': 0}\nx = DataLoader(data, num_workers=config['w'])  # here\n",
        None,
        ["config = {'lr': 1, 'w': 2}"],
    ),
    "an entry of a dict that the run still had": (
        "config = dict(w=0)\nf(config)\nx = DataLoader(data, num_workers=config['w'])  # here\n",
        0,
        ["config = dict(w=2)"],
    ),
    "the branch that the run took": (
        "x = DataLoader(data, num_workers=4 if cuda else 0)  # here\n",
        4,
        ["x = DataLoader(data, num_workers=2 if cuda else 0)"],
    ),
    "the dict of one branch": (
        "if a:\n    kw = {'num_workers': 1}\nelse:\n    kw = dict(shuffle=True)\n"
        "x = DataLoader(data, **kw)  # here\n",
        1,
        ["kw = {'num_workers': 2}"],
    ),
    "a dict that the run has added": (
        "kw = {'shuffle': True}\n"
        "if cuda:\n    of_cuda = {'num_workers': 1}\n    kw.update(of_cuda)\n"
        "x = DataLoader(data, **kw)  # here\n",
        1,
        ["of_cuda = {'num_workers': 2}"],
    ),
    "an entry that the run has added": (
        "kw = {}\nif cuda:\n    kw['num_workers'] = 1\nx = DataLoader(data, **kw)  # here\n",
        1,
        ["kw['num_workers'] = 2"],
    ),
    "a dict that is only printed": (
        "kw = {'num_workers': 0}\nprint(kw)\nx = DataLoader(data, **kw)  # here\n",
        None,
        ["kw = {'num_workers': 2}"],
    ),
}


@pytest.mark.parametrize(("source", "had", "lines"), FOLLOWED.values(), ids=FOLLOWED)
def test_a_value_is_changed_where_the_run_had_it_from(path, source, had, lines) -> None:
    assert written(path, source, had) == lines


NOT_FOLLOWED = {
    "two calls that differ": (
        "def f(d, w):\n    return DataLoader(d, num_workers=w)  # here\n"
        "a = f(1, 4)\nb = f(2, w=0)\n",
        None,
        "may come from line 4 and 5",
    ),
    "two calls with the same": (
        "def f(d, w):\n    return DataLoader(d, num_workers=w)  # here\n"
        "a = f(1, 4)\nb = f(2, w=4)\n",
        4,
        "may come from line 4 and 5",
    ),
    "a function that is handed on": (
        "def f(d, w):\n    return DataLoader(d, num_workers=w)  # here\n"
        "spawn(f, (1, 2))\nf(1, 4)\n",
        4,
        "not certain where w gets",
    ),
    "unpacked": (
        "def f(d, w):\n    return DataLoader(d, num_workers=w)  # here\nf(*both)\n",
        4,
        "not certain where w gets",
    ),
    "an attribute that is set again": (
        """
        class T:
            def __init__(self, w=0):
                self.w = w
            def loader(self):
                return DataLoader(data, num_workers=self.w)  # here
        t = T()
        t.w = 3
        """,
        None,
        "may not come from parse_args",
    ),
    "a class that is given values": (
        "class C:\n    w: int = 0\nc = C(w=4)\nx = DataLoader(d, num_workers=c.w)  # here\n",
        None,
        "may not come from parse_args",
    ),
    "a dict that is updated": (
        "config = {'w': 0}\nconfig.update(x)\nx = DataLoader(d, num_workers=config['w'])  # here\n",
        0,
        "is computed",
    ),
    "an entry that is set": (
        "config = {'w': 0}\nconfig['w'] = 1\nx = DataLoader(d, num_workers=config['w'])  # here\n",
        None,
        "is computed",
    ),
    "a dict that others may set": (
        "config = {'w': 0}\nf(config)\nx = DataLoader(d, num_workers=config['w'])  # here\n",
        None,
        "is computed",
    ),
    "a global that a function sets": (
        "w = 0\ndef f():\n    global w\n    w = 4\nx = DataLoader(d, num_workers=w)  # here\n",
        None,
        "w is set 2 times",
    ),
    "a star import": (
        "w = 0\nfrom config import *\nx = DataLoader(d, num_workers=w)  # here\n",
        None,
        "exec, globals or an import",
    ),
    "two branches with the same": (
        "kw = {'num_workers': 1} if a else {'num_workers': 1}\nx = DataLoader(d, **kw)  # here\n",
        1,
        "may come from",
    ),
    "a dict that a function made": (
        "kw = {}\nkw.update(more())\nx = DataLoader(data, **kw)  # here\n",
        1,
        "may come from",
    ),
}


@pytest.mark.parametrize(("source", "had", "reason"), NOT_FOLLOWED.values(), ids=NOT_FOLLOWED)
def test_a_value_that_may_come_from_elsewhere_is_left_alone(path, source, had, reason) -> None:
    with pytest.raises(PatchRefusedError, match=reason):
        patch_of(path, source, had)


SPLITS = {
    "a comprehension": "x = {s: DataLoader(data[s], num_workers=0) for s in ['a', 'b']}  # here\n",
    "a loop": "for s in ('a', 'b'):\n    x[s] = DataLoader(data[s], num_workers=0)  # here\n",
    "a name for both": (
        "splits = ['a', 'b']\nx = [DataLoader(data[s], num_workers=0) for s in splits]  # here\n"
    ),
}


@pytest.mark.parametrize("source", SPLITS.values(), ids=SPLITS)
def test_a_loader_for_each_split_is_changed_and_told(path, source) -> None:
    patch = patch_of(path, source, wanted=3)
    assert b"num_workers=3" in patch.after
    (told,) = patch.notes
    assert told.startswith("The call makes a loader for each of ")
    assert told.endswith("all of them change.")


@pytest.mark.parametrize(
    "source",
    [
        "x = [DataLoader(d) for d in data]  # here\n",
        "for n in range(2):\n    x = DataLoader(data)  # here\n",
        "x = [DataLoader(d) for d in (1, 2, 3, 4, 5)]  # here\n",
        "for e in y:\n    x = {s: DataLoader(s) for s in ['a', 'b']}  # here\n",
        "def epoch():\n    x = DataLoader(data)  # here\nfor e in range(9):\n    epoch()\n",
    ],
)
def test_a_loader_that_a_loop_makes_again_and_again_is_left_alone(path, source) -> None:
    with pytest.raises(PatchRefusedError, match="created in a loop"):
        patch_of(path, source)


TOLD = {
    "another loader": (
        PARSED + LOADED + "val = DataLoader(b, num_workers=args.w)\nprint(args.w)\n",
        "val at train.py:5 reads the same value: it changes for it, too.",
    ),
    "another loader without a name": (
        PARSED + LOADED + "fit(DataLoader(b, num_workers=args.w))\n",
        "another loader at train.py:5 reads the same value: it changes for it, too.",
    ),
    "loaders and other lines": (
        PARSED
        + "torch.set_num_threads(args.w)\n"
        + LOADED
        + "a = DataLoader(a, num_workers=args.w)\nb = DataLoader(b, num_workers=args.w)\n",
        "a at train.py:6, b at train.py:7 and train.py:4 read the same value: it changes for them, "
        "too.",
    ),
    "a shared dict": (
        "kw = {'num_workers': 0}\nx = DataLoader(a, **kw)  # here\ny = DataLoader(b, **kw)\n",
        "y at train.py:4 reads the same value: it changes for it, too.",
    ),
    "a dict that both are updated by": (
        "a, b = {}, {}\n"
        "one = {'num_workers': 1}\nleft = {}\nright = {}\nleft.update(one)\nright.update(one)\n"
        "x = DataLoader(a, **left)  # here\ny = DataLoader(b, **right)\n",
        "y at train.py:9 reads the same value: it changes for it, too.",
    ),
    "a shared variable": (
        "w = 0\nx = DataLoader(a, num_workers=w)  # here\ny = DataLoader(b, num_workers=w)\n",
        "y at train.py:4 reads the same value: it changes for it, too.",
    ),
    "a function that makes others": (
        "def f(d, w=0):\n    return DataLoader(d, num_workers=w)  # here\na = f(1)\nb = f(2)\n",
        "train.py:5 and train.py:4 read the same value: it changes for them, too.",
    ),
    "a comment": (
        "x = DataLoader(a, num_workers=4)  # 4 are enough  # here\n",
        "The comment at train.py:2 still says 4.",
    ),
    "a help text": (
        'p.add_argument("--w", type=int, default=4, help="workers (default: 4)")\n'
        "args = p.parse_args()\n" + LOADED,
        "The help text at train.py:2 still says 4.",
    ),
}


@pytest.mark.parametrize(("source", "sentence"), TOLD.values(), ids=TOLD)
def test_what_else_changes_or_is_left_is_reported(path, source, sentence) -> None:
    had = 1 if "'num_workers': 1" in source else None
    assert patch_of(path, source, had).notes == (sentence,)


TEMPLATE_HEAD = "import torch as th\nimport math\nfrom torch.nn import functional as F\n"
FITTING = {
    "in another order": ("$a * $b + $c", "z + y * x", {"a": "y", "b": "x", "c": "z"}),
    "the same name again": ("$a * $a", "f(x) * f(x)", {"a": "f(x)"}),
    "a function by its import": ("torch.sqrt($a)", "th.sqrt(x + 1)", {"a": "x + 1"}),
    "a function of a module": ("torch.nn.functional.relu($a)", "F.relu(x)", {"a": "x"}),
    "a dimension by its name": ("$a.sum(-1, keepdim=True)", "x.sum(keepdim=True, dim=-1)", {}),
    "other keywords": ("torch.ones($n, **_)", "th.ones(2, device=d)", {"n": "2"}),
    "numbers alike": ("min(1, $a)", "min(1.0, x)", {"a": "x"}),
    "statements": ("$a.mul_($b); $a.add_($c)", "x.mul_(2)\nx.add_(y)", {"b": "2", "c": "y"}),
    "an assignment": ("$a = $a * $b", "x.grad = 2 * x.grad", {"a": "x.grad", "b": "2"}),
}
OTHERS = {
    "another order": ("$a - 1", "1 - x"),
    "two names": ("$a * $a", "x * y"),
    "a function of another module": ("torch.sqrt($a)", "math.sqrt(x)"),
    "a method": ("torch.sqrt($a)", "x.sqrt()"),
    "a further argument": ("torch.sqrt($a)", "th.sqrt(x, out=y)"),
    "an argument less": ("$a.sum(-1)", "x.sum()"),
    "another operator": ("$a + $b", "x @ y"),
    "another number of statements": ("$a.mul_($b); $a.add_($c)", "x.mul_(2)"),
}


def match(template: str, source: str) -> Match | None:
    program = parse_program((TEMPLATE_HEAD + source).encode())
    return Templates(program).match(program.tree.body[3:], template)


@pytest.mark.parametrize(("template", "source", "parts"), FITTING.values(), ids=FITTING)
def test_what_a_template_fits(template, source, parts) -> None:
    found = match(template, source)
    assert found is not None
    assert {name: ast.unparse(found[name]) for name in parts} == parts


@pytest.mark.parametrize(("template", "source"), OTHERS.values(), ids=OTHERS)
def test_what_a_template_does_not_fit(template, source) -> None:
    assert match(template, source) is None


def test_local_names_stand_for_what_they_were_set_to() -> None:
    program = parse_program(b"def f(x, eps):\n    s = x * x\n    t = s + eps\n    return 1 / t\n")
    function, end = program.functions["f"][0], program.tree.body[0].body[-1].value  # type: ignore[attr-defined]
    local = LocalValues(program, function, end)  # type: ignore[arg-type]
    rules = {"sum": ("$square + $eps",), "square": ("$x ** 2", "$x * $x")}
    found = Templates(program, rules, local).match(end, "1 / $sum")
    assert [one.lineno for one in found.followed] == [3, 2]
    where = {"eps": lambda node: isinstance(node, ast.Constant)}
    assert Templates(program, rules, local, where).match(end, "1 / $sum") is None
