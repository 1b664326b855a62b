"""A saved run whose window holds a GPU that waits for a loader of the script beside it."""

from __future__ import annotations

import os
from pathlib import Path

from perftui.run.layout import RunLayout
from perftui.run.manifest import Status
from tests.traces.builder import TraceBuilder, ms, us
from tests.tui.recorded import START, write_run

SCRIPT = """\
from torch.utils.data import DataLoader

def train(model, pictures, optimizer):
    loader = DataLoader(pictures, batch_size=128, shuffle=True)
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
"""
LOADER_LINE, COSTLY_LINE = 4, 6
WAITS = (ms(118), ms(126), ms(121))
"""For data in each step; the GPU idles longer, as the step before ends without it."""

_STEP, _CONVOLUTION, _SUM = ms(300), ms(90), ms(8)


def write_gpu_run(folder: Path) -> tuple[Path, Path]:
    """The run, over already, and the script that it ran."""
    script = folder / "train.py"
    script.write_text(SCRIPT)
    # As it was when the run began: a script edited since is not what ran.
    os.utime(script, ns=(START - 10**9, START - 10**9))
    root = write_run(
        folder / ".perftui" / "runs",
        gpu=True,
        script=script,
        loader_line=LOADER_LINE,
        cwd=str(folder),
        status=Status.EXITED,
        exit_code=0,
        ended_ns=START + 10**11,
    )
    window = RunLayout(root).rank(0).window(100)
    window.parent.mkdir()
    gpu_window().write(window)
    return root, script


def gpu_window() -> TraceBuilder:
    """Steps that wait for data, then convolve and sum up on the GPU."""
    story = TraceBuilder().numbered(100)
    for at, wait in zip((0, _STEP, 2 * _STEP), WAITS, strict=True):
        go = at + wait + ms(2)
        story.at(at).step(_STEP - ms(1)).at(at + ms(1)).data_wait(wait)
        _operator(story.at(go), "aten::conv2d", "conv_kernel", go + us(300), _CONVOLUTION)
        summed = go + us(350) + _CONVOLUTION
        _operator(story.at(go + ms(2)), "aten::sum", "reduce_kernel", summed, _SUM)
    return story


def _operator(story: TraceBuilder, name: str, kernel: str, starts: int, lasting: int) -> None:
    at = story.now
    story.at(at - us(50)).frame(f"train.py({COSTLY_LINE}): train", us(1_500))
    story.at(at).op(name, ms(1)).at(at + us(100))
    story.launch(kernel, lasting, call=us(20), starts=starts)
