"""`perftui demo`: the bundled training with a slow data loader."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.run import launch_of, run_launch


def demo(line: CommandLine) -> int:
    """Copy the bundled script where it can be edited, and run it.

    The copy is what a fix is written to: an installed package must never change.

    Raises:
        UsageError: the copy cannot be made.
    """
    from dataclasses import replace

    from perftui_tui import demo as bundled

    source = Path(bundled.__file__).with_name("train.py")
    try:
        script = Path(tempfile.mkdtemp(prefix="perftui-demo-")) / "train.py"
        shutil.copyfile(source, script)
    except OSError as error:
        raise UsageError(f"the demo cannot be copied: {error}") from error
    return run_launch(line, launch_of(replace(line, action="script", words=(str(script),))))
