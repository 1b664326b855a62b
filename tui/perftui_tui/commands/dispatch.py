"""From the command line to the command. Each imports what is heavy itself."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from perftui_tui.commands.failure import UsageError
from perftui_tui.commands.line import CommandLine, parse
from perftui_tui.commands.log import log


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code.

    2 is an error of ours, said in one line on stderr; otherwise the code is the script's.
    """
    try:
        return _dispatch(parse(list(arguments)))
    except UsageError as error:
        log(f"perftui: {error}")
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (head, less) has gone: nobody is left to tell.
        sys.stderr.close()
        return 141


def _dispatch(line: CommandLine) -> int:
    if line.note:
        log(f"perftui: {line.note}")
    if line.action == "help":
        from perftui_tui.commands.usage import USAGE

        print(USAGE)
        return 0
    if line.action == "version":
        from perftui import __version__

        print(f"perftui {__version__}")
        return 0
    return _command(line)


def _command(line: CommandLine) -> int:
    if line.action == "replay":
        from perftui_tui.commands.replay import replay

        return replay(line)
    if line.action == "attach":
        from perftui_tui.commands.attach import attach

        return attach(line)
    if line.action == "report":
        from perftui_tui.commands.report import report

        return report(line)
    if line.action == "runs":
        from perftui_tui.commands.runs import runs

        return runs(line)
    if line.action == "demo":
        from perftui_tui.commands.demo import demo

        return demo(line)
    if line.action == "keys":
        from perftui_tui.commands.keys import keys

        return keys(line)
    if line.action == "explain":
        from perftui_tui.commands.explain import explain

        return explain(line)
    from perftui_tui.commands.run import run

    return run(line)
