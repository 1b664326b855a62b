import ast
import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from perftui.fixes.data_loader import LOADER
from perftui.fixes.source.patching import call_patch
from perftui.script.program import PatchRefusedError
from tests.core.fixes.forms.form import diffs
from tests.core.fixes.test_edits import comments

WORKERS = {"num_workers": 2, "persistent_workers": True}
HEAD = "from torch.utils.data import DataLoader\n"


def line_of_call(source: bytes) -> int:
    """The line the profiler would report: where the marked call begins."""
    return next(
        at
        for at, line in enumerate(source.split(b"\n"), 1)
        if b"DataLoader(" in line or (b"DL(" in line and b"import" not in line)
    )


def patched(path: Path, source: bytes, arguments=None, line: int | None = None) -> bytes:
    path.write_bytes(source)
    patch = call_patch(path, line or line_of_call(source), LOADER, arguments or WORKERS)
    assert (patch.path, patch.before) == (path, source)
    assert path.read_bytes() == source, "a patch is made, not applied"
    return patch.after


def assert_patch(path: Path, before: str, after: str, arguments=None, head: str = HEAD) -> None:
    source, expected = (head + dedent(text) for text in (before, after))
    result = patched(path, source.encode(), arguments)
    assert result.decode() == expected
    assert comments(result) == comments(source.encode())
    with pytest.raises(PatchRefusedError):  # a second time there is nothing to do
        patched(path, result, arguments)


LAYOUTS = diffs("""
one line
- loader = DataLoader(data, batch_size=4)
+ loader = DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True)

one argument
- loader = DataLoader(data)
+ loader = DataLoader(data, num_workers=2, persistent_workers=True)

trailing comma on one line
- loader = DataLoader(data, batch_size=4,)
+ loader = DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True,)

spaces around equals
- loader = DataLoader(data, batch_size = 4)
+ loader = DataLoader(data, batch_size = 4, num_workers = 2, persistent_workers = True)

one argument a line
  loader = DataLoader(
      data,
      batch_size=4,
+     num_workers=2,
+     persistent_workers=True,
  )

one argument a line without a trailing comma
  loader = DataLoader(
      data,
-     batch_size=4
+     batch_size=4,
+     num_workers=2,
+     persistent_workers=True
  )

a lone argument on its line
  loader = DataLoader(
      data,
+     num_workers=2,
+     persistent_workers=True,
  )

several arguments on one inner line
  loader = DataLoader(
-     data, batch_size=4, shuffle=True,
+     data, batch_size=4, shuffle=True, num_workers=2, persistent_workers=True,
  )

aligned under the bracket
  loader = DataLoader(data,
-                     batch_size=4)
+                     batch_size=4,
+                     num_workers=2,
+                     persistent_workers=True)

comments stay with their arguments
  loader = DataLoader(
      data,  # images
      batch_size=4,  # fits
+     num_workers=2,
+     persistent_workers=True,
      # the end
  )

a comment without a trailing comma
  loader = DataLoader(
      data,
-     batch_size=4  # fits
+     batch_size=4,  # fits
+     num_workers=2,
+     persistent_workers=True
  )

a comment behind the bracket
  loader = DataLoader(
      data, batch_size=4,
-     drop_last=True)  # single images break it
+     drop_last=True, num_workers=2, persistent_workers=True)  # single images break it

iterated where it is made
- for batch in DataLoader(data): pass
+ for batch in DataLoader(data, num_workers=2, persistent_workers=True): pass

passed on
- fit(DataLoader(data, 4), epochs=3)
+ fit(DataLoader(data, 4, num_workers=2, persistent_workers=True), epochs=3)
""")
LAYOUTS["tabs"] = (
    "def make():\n\treturn DataLoader(\n\t\tdata,\n\t\tbatch_size=4,\n\t)\n",
    "def make():\n\treturn DataLoader(\n\t\tdata,\n\t\tbatch_size=4,\n"
    "\t\tnum_workers=2,\n\t\tpersistent_workers=True,\n\t)\n",
)


@pytest.mark.parametrize(("before", "after"), LAYOUTS.values(), ids=LAYOUTS)
def test_keywords_are_added_in_the_layout_of_the_call(path, before, after) -> None:
    assert_patch(path, before, after)


VALUES = {
    "a literal": (
        "loader = DataLoader(data, num_workers=0, shuffle=True)\n",
        "loader = DataLoader(data, num_workers=2, shuffle=True, persistent_workers=True)\n",
    ),
    "a literal in brackets": (
        "loader = DataLoader(data, num_workers=(0))\n",
        "loader = DataLoader(data, num_workers=(2), persistent_workers=True)\n",
    ),
    "by position": (
        "loader = DataLoader(data, 4, True, None, None, 0)\n",
        "loader = DataLoader(data, 4, True, None, None, 2, persistent_workers=True)\n",
    ),
    "workers kept from stopping": (
        "loader = DataLoader(data, num_workers=0, persistent_workers=False)\n",
        "loader = DataLoader(data, num_workers=2, persistent_workers=True)\n",
    ),
    "a computed companion is left alone": (
        "loader = DataLoader(data, num_workers=0, persistent_workers=keep)\n",
        "loader = DataLoader(data, num_workers=2, persistent_workers=keep)\n",
    ),
    "a variable of the module": (
        "workers = 0\ndef make():\n    return DataLoader(data, num_workers=workers)\n",
        "workers = 2\ndef make():\n"
        "    return DataLoader(data, num_workers=workers, persistent_workers=workers > 0)\n",
    ),
    "the default of an option": (
        "p.add_argument('-j', '--num-threads', default=0, type=int, dest='threads')\n"
        "args = p.parse_args()\nloader = DataLoader(data, num_workers=args.threads)\n",
        "p.add_argument('-j', '--num-threads', default=2, type=int, dest='threads')\n"
        "args = p.parse_args()\nloader = DataLoader(data, num_workers=args.threads, "
        "persistent_workers=args.threads > 0)\n",
    ),
    "an option in the function it is passed to": (
        "def main(opt):\n    return DataLoader(data, num_workers=opt.n_cpu)\n"
        "p.add_argument('--n-cpu', type=int, default=0)\nopt = p.parse_args()\nmain(opt)\n",
        "def main(opt):\n    return DataLoader(data, num_workers=opt.n_cpu, "
        "persistent_workers=opt.n_cpu > 0)\n"
        "p.add_argument('--n-cpu', type=int, default=2)\nopt = p.parse_args()\nmain(opt)\n",
    ),
    "a dict that this call alone uses": (
        "kw = {'num_workers': 0, 'pin_memory': True}\nloader = DataLoader(data, **kw)\n",
        "kw = {'num_workers': 2, 'pin_memory': True}\nloader = DataLoader(data, **kw)\n",
    ),
    "a dict call": (
        "kw = dict(num_workers=0)\nloader = DataLoader(data, **kw)\n",
        "kw = dict(num_workers=2)\nloader = DataLoader(data, **kw)\n",
    ),
    "a dict in the call": (
        "loader = DataLoader(data, **{'num_workers': 0})\n",
        "loader = DataLoader(data, **{'num_workers': 2})\n",
    ),
    "a dict without the key": (
        "kw = {'pin_memory': True}\nloader = DataLoader(data, **kw)\n",
        "kw = {'pin_memory': True}\n"
        "loader = DataLoader(data, num_workers=2, persistent_workers=True, **kw)\n",
    ),
    "nothing but a dict": (
        "loader = DataLoader(**{'dataset': data})\n",
        "loader = DataLoader(num_workers=2, persistent_workers=True, **{'dataset': data})\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), VALUES.values(), ids=VALUES)
def test_a_value_is_changed_where_it_is_written(path, before, after) -> None:
    assert_patch(path, before, after)


IMPORTS = {
    "alias": ("from torch.utils.data import DataLoader as DL\n", "DL"),
    "module": ("import torch\n", "torch.utils.data.DataLoader"),
    "submodule": ("import torch.utils.data\n", "torch.utils.data.DataLoader"),
    "module alias": ("import torch.utils.data as data_\n", "data_.DataLoader"),
    "package": ("from torch.utils import data as tud\n", "tud.DataLoader"),
    "defined in": ("from torch.utils.data.dataloader import DataLoader\n", "DataLoader"),
    "twice": (HEAD + "try:\n    import torch.utils.data\nexcept: pass\n", "DataLoader"),
}


@pytest.mark.parametrize(("head", "name"), IMPORTS.values(), ids=IMPORTS)
def test_the_loader_is_known_by_any_import(path, head, name) -> None:
    assert_patch(
        path,
        f"loader = {name}(data)\n",
        f"loader = {name}(data, num_workers=2, persistent_workers=True)\n",
        head=head,
    )


REFUSED = {
    "another class": ("class DataLoader(Base): ...\nx = DataLoader(data)\n", "may not be"),
    "a subclass": (
        HEAD + "class MyDataLoader(DataLoader): ...\nx = MyDataLoader(data)\n",
        "may not be"),
    "partial": (
        HEAD + "from functools import partial\nDL = partial(DataLoader, data)\nx = DL()\n",
        "does not call"),
    "rebound": (HEAD + "DataLoader = wrap(DataLoader)\nx = DataLoader(data)\n", "may not be"),
    "two on a line": (HEAD + "a, b = DataLoader(x), DataLoader(y)\n", "2 loaders"),
    "unpacked positions": (HEAD + "x = DataLoader(*args)\n", "unpacks positional"),
    "set by exec": (
        HEAD + "w = 0\nexec(open('c').read())\nx = DataLoader(data, num_workers=w)\n", "exec"),
    "a dict that another function is given": (
        HEAD + "kw = {'num_workers': 0}\nadapt(kw)\nx = DataLoader(a, **kw)\n",
        "may come from"),
    "a dict that is a parameter": (
        HEAD + "def f(kw):\n    return DataLoader(data, **kw)\n", "may come from"),
    "a dict set twice": (
        HEAD + "x = DataLoader(data, **{'num_workers': 1, 'num_workers': 0})\n", "set twice"),
    "two dicts": (HEAD + "x = DataLoader(data, **{}, **{'num_workers': 0})\n", "any of 2"),
    "already so": (
        HEAD + "x = DataLoader(data, num_workers=2, persistent_workers=True)\n", "already"),
    "not a number": (HEAD + "x = DataLoader(data, num_workers=None)\n", "is None"),
    "not Python 3": (HEAD + "x = DataLoader(data).cuda(async=True)\n", "does not parse"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused_with_the_reason(path, source, reason) -> None:
    made = [
        at for at, text in enumerate(source.split("\n"), 1) if re.search(r"(Loader|DL)\(", text)
    ]
    with pytest.raises(PatchRefusedError, match=reason):
        patched(path, source.encode(), line=made[-1])


PINNED = {"pin_memory": True}
PERSISTENT = {"persistent_workers": True}
AHEAD = {"prefetch_factor": 8}
VARIABLES = ("args.w", "workers", "self.args.workers", "config['loader']['workers']", "n[0]")

ALONE = [
    (PINNED, "4, pin_memory=False", "4, pin_memory=True"),
    (PINNED, "4, num_workers=args.w", "4, num_workers=args.w, pin_memory=True"),
    (PERSISTENT, "num_workers=3", "num_workers=3, persistent_workers=True"),
    # Beside a variable it depends on that.
    *(
        (PERSISTENT, f"4, num_workers={n}", f"4, num_workers={n}, persistent_workers={n} > 0")
        for n in VARIABLES
    ),
    (
        PERSISTENT,
        "4, True, None, None, args.w",
        "4, True, None, None, args.w, persistent_workers=args.w > 0",
    ),
    (AHEAD, "num_workers=n", "num_workers=n, prefetch_factor=8 if n > 0 else None"),
    # A queue that is given shows that there are workers.
    *(
        (AHEAD, f"num_workers={n}, prefetch_factor=2", f"num_workers={n}, prefetch_factor=8")
        for n in ("2", "args.w", "count()")
    ),
]


@pytest.mark.parametrize(("arguments", "given", "becomes"), ALONE)
def test_one_argument_stands_alone(path, arguments, given, becomes) -> None:
    call = "def make():\n    return DataLoader(data, {})\n"
    assert_patch(path, call.format(given), call.format(becomes), arguments)


BESIDE = "is set, and the number of workers is a variable"

NOT_ALONE = [
    *(
        (arguments, workers, "no number of workers")
        for arguments in (PERSISTENT, AHEAD)
        for workers in ("4", "num_workers=0", "num_workers=count()", "num_workers=n[0:1]")
    ),
    (PERSISTENT, "num_workers=args.w, persistent_workers=False", BESIDE),
    (PERSISTENT, "num_workers=args.w, persistent_workers=keep", "not certain where keep"),
    (PERSISTENT, "num_workers=args.w, persistent_workers=args.keep", "not come from parse_args"),
    (AHEAD, "num_workers=args.w, prefetch_factor=None", BESIDE),
    (AHEAD, "num_workers=2, prefetch_factor=count()", "is computed"),
]


@pytest.mark.parametrize(("arguments", "given", "why"), NOT_ALONE)
def test_what_only_workers_can_have_is_refused_without_them(path, arguments, given, why) -> None:
    source = f"{HEAD}loader = DataLoader(data, {given})\n".encode()
    with pytest.raises(PatchRefusedError, match=why):
        patched(path, source, arguments)


def test_a_flag_for_persistence_beside_a_variable_is_left_alone(path) -> None:
    call = "loader = DataLoader(data, num_workers=args.w, persistent_workers=args.pin)\n"
    with pytest.raises(PatchRefusedError, match=BESIDE):
        patched(path, (HEAD + FLAG + call).encode(), PERSISTENT)


@pytest.mark.parametrize(("workers", "kept"), [(0, False), (2, True)])
def test_the_condition_makes_a_loader_with_and_without_workers(path, workers, kept) -> None:
    source = f"{HEAD}loader = DataLoader([1, 2], num_workers=args.w)\n".encode()
    after = patched(path, source, PERSISTENT)
    made = []

    def loader(_data, num_workers, persistent_workers=False):
        # As torch has it.
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        made.append(persistent_workers)

    lines = after.decode().removeprefix(HEAD)
    exec(lines, {"DataLoader": loader, "args": SimpleNamespace(w=workers)})  # noqa: S102
    assert made == [kept]


@pytest.mark.parametrize(
    ("call", "had", "reason"),
    [
        ("DataLoader(data, num_workers=8)", 0, "says num_workers=8, but the run had 0"),
        ("DataLoader(data)", 4, "says num_workers=0, but the run had 4"),
        ("DataLoader(data)", 0, ""),
        ("DataLoader(data, num_workers=1)", 1, ""),
        ("DataLoader(data, num_workers=1)", None, ""),
    ],
)
def test_a_literal_that_the_run_contradicts_is_not_edited(path, call, had, reason) -> None:
    path.write_text(f"{HEAD}loader = {call}\n")
    if not reason:
        assert b"num_workers=2" in call_patch(path, 2, LOADER, WORKERS, {"num_workers": had}).after
        return
    with pytest.raises(PatchRefusedError, match=reason):
        call_patch(path, 2, LOADER, WORKERS, {"num_workers": had})


FLAG = """\
p.add_argument(
    '--pin',
    action='store_true',
)
args = p.parse_args()
"""


def test_a_patch_says_which_call_has_its_arguments_and_where(path) -> None:
    """The default, which is given on a line of its own, moves the call down."""
    path.write_text(f"{HEAD}{FLAG}loader = DataLoader(data, pin_memory=args.pin)\n")
    patch = call_patch(path, 7, LOADER, {"pin_memory": True}, {"pin_memory": False})
    assert patch.after.decode().split("\n")[4:8] == [
        "    default=True,",
        ")",
        "args = p.parse_args()",
        "loader = DataLoader(data, pin_memory=args.pin)",
    ]
    assert (patch.target, patch.line) == ("torch.utils.data.DataLoader", 8)
    assert patch.arguments == {"pin_memory": True}
    with pytest.raises(PatchRefusedError, match="says pin_memory=False, but the run had True"):
        call_patch(path, 7, LOADER, {"pin_memory": True}, {"pin_memory": True})


def test_any_line_of_a_call_finds_it_and_only_that_call_changes(path) -> None:
    source = HEAD + "train = DataLoader(a)\ntest = DataLoader(b)\n"
    after = patched(path, source.encode(), line=3)
    assert after.decode() == source.replace(
        "DataLoader(b)", "DataLoader(b, num_workers=2, persistent_workers=True)"
    )
    source = (HEAD + "train = DataLoader(\n    a,\n)\n").encode()
    assert patched(path, source, line=3) == patched(path, source, line=2)


@pytest.mark.parametrize(
    ("source", "added"),
    [
        (HEAD.replace("\n", "\r\n").encode() + b"x = DataLoader(\r\n    a,\r\n    b,\r\n)\r\n", 2),
        (b"\xef\xbb\xbf" + HEAD.encode() + b"x = DataLoader(a)\n", 0),
        (b"# -*- coding: latin-1 -*-\n" + HEAD.encode() + b"x = f('\xe9\xe9', DataLoader(a))\n", 0),
        (HEAD.encode() + "x = f('é€𝄞', DataLoader(a))\n".encode(), 0),
    ],
    ids=["CRLF", "BOM", "latin-1", "UTF-8"],
)
def test_bytes_around_the_edit_are_kept(path, source, added) -> None:
    after = patched(path, source)
    kept = after.replace(b"    num_workers=2,\r\n    persistent_workers=True,\r\n", b"")
    assert kept.replace(b", num_workers=2, persistent_workers=True", b"") == source
    assert after.count(b"\r\n") == source.count(b"\r\n") + added
    ast.parse(after)
