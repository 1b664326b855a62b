"""What `--help` prints, of perftui and of each command."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from perftui_tui.commands.table import COMMANDS, OPTIONS, RECORDING, RUN, Command

WIDTH = 80
COLUMN = 20
"""Where what an option does begins."""

_FORMS = """\
perftui: find out why a PyTorch training is slow, and fix it

  perftui [options] SCRIPT [ARGS...]      run a training script and watch it
  perftui [options] -m MODULE [ARGS...]   run a module
  perftui [options] -- COMMAND [ARGS...]  run any command (torchrun, ...)
  perftui PATH                            open a trace (torch.profiler, nsys) or a
                                          recorded run, also by URL (s3://...)
  perftui COMMAND --help                  show the options of a command

Commands:"""
_EXIT_CODES = """\
In the app, ? shows the keys of each screen and q quits; the training can go on
without it. Exit code: the script's; 0 if the training is left running; 2 if
perftui cannot do what was asked; 70 if the app itself fails (the training goes
on). try, tune and compare: 0 faster, 3 slower, 4 no difference, 5 not certain,
6 the fix did not reach the training, 1 error."""


def overview() -> str:
    """The forms, all commands, and the options of a training."""
    commands = (_row(one.name, one.about) for one in COMMANDS.values())
    before = "Everything after SCRIPT, MODULE or COMMAND belongs to it. Options come before:"
    last = ("  --version, --help", "", _EXIT_CODES)
    return "\n".join((_FORMS, *commands, "", before, *_rows(RUN.options), *last))


def of_command(own: Command) -> str:
    """At most a screen of 80 x 24."""
    about = f"{own.about[:1].upper()}{own.about[1:]}."
    lines = [f"usage: perftui {own.name} {own.takes}".rstrip(), about]
    records = set(RECORDING) <= set(own.options)
    options = [name for name in own.options if not (records and name in RECORDING)]
    if own.options:
        lines += ["", *_rows(options)]
    if records:
        names = ", ".join(f"--{name}" for name in RECORDING)
        text = f"Options of a recording, as in perftui --help: {names}."
        lines += textwrap.wrap(text, WIDTH, break_on_hyphens=False)
    if own.more:
        lines += ["", own.more]
    return "\n".join((*lines, "", "Examples:", *(f"  {one}" for one in own.examples)))


def _rows(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield _row(f"--{name} {OPTIONS[name].value}".rstrip(), OPTIONS[name].about)


def _row(left: str, about: str) -> str:
    start = f"  {left} ".ljust(COLUMN)
    following = " " * COLUMN
    return textwrap.fill(
        about,
        WIDTH,
        initial_indent=start,
        subsequent_indent=following,
        break_on_hyphens=False,
    )
