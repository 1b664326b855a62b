"""The format of the page on which a data-loader worker, or the training, counts its batches.

Layout: a file of ``PAGE`` bytes that begins with JSON, NUL-padded; at ``RECORD_OFFSET`` one
``RECORD``, stored anew at each change: its number, batches, batches of known size, their bytes, ns
spent on fetching and on collating, the sum of the squares of the batches' times (us), the stage,
its start (monotonic ns), and the record's number again. The training itself stores batches that
follow one of less than 5 ms only when they are complete. The file ``loader-<owner>-<pid>-<monotonic
ns>`` is in the spool; ``owner`` is the training process.
"""

from __future__ import annotations

import struct

VERSION = 2
PAGE = 4096
RECORD = struct.Struct("<10q")
RECORD_OFFSET = 2048

IDLE, FETCH, COLLATE, ENDED = range(4)
"""Stages: waiting for a task, in the dataset, in the collate function, ended."""
