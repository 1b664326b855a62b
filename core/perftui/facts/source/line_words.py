"""In words, what a line of the script is doing: by what it calls, and by its text."""

from __future__ import annotations

import linecache
import re
from functools import lru_cache
from pathlib import Path

LONGEST_SOURCE = 4 << 20
"""Bytes of a file that is read for its lines; no script of a person is longer."""

WRITING = "writing files"

SLEEPING = "sleeping"
SUBPROCESS = "a subprocess"
REQUEST = "a network request"
POOL = "waiting for a pool of workers"
WAITING = (SLEEPING, SUBPROCESS, REQUEST, POOL)
"""While a thread does these it waits for something else than Python's lock."""

LOOP = "a loop in Python"
"""A loop of unknown content: it may call operators alone."""

_CALLED = tuple(
    (words, re.compile(marks))
    for words, marks in (
        (SUBPROCESS, r"/(subprocess|pty)\.py\b|^multiprocessing/(process|popen)"),
        (POOL, r"\b(multiprocessing/pool|concurrent/futures/\w+|joblib/parallel)\b"),
        (REQUEST, r"^(requests|urllib3|httpx|httpcore|aiohttp|boto\w*|smart_open)/"),
        (REQUEST, r"\b(urllib|http)/|/(socket|ssl)\.py\b"),
        ("reporting to Weights & Biases", r"^(wandb|wandb_\w+)/"),
        ("reporting to an experiment tracker", r"^(mlflow|comet_ml|neptune|clearml|aim|dvclive)/"),
        ("writing TensorBoard summaries", r"tensorboard"),
        ("drawing with matplotlib", r"^(matplotlib|seaborn|PIL|plotly|mpl_toolkits)/"),
        ("work with pandas", r"^(pandas|polars|pyarrow)/"),
        ("metrics of scikit-learn", r"^(sklearn|scipy|torchmetrics|nltk|sacrebleu|rouge\w*)/"),
        ("a progress bar", r"^(tqdm|rich|progressbar|alive_progress)/"),
        ("writing logs", r"\blogging/|^(loguru|structlog|absl/logging)\b|/csv\.py\b"),
        ("writing JSON", r"\bjson/|^(orjson|simplejson|yaml|ruamel)\b"),
        ("copying objects (copy.deepcopy)", r"/copy\.py\b|__deepcopy__"),
        ("regular expressions", r"/(re|sre_\w+)(/|\.py)|^regex/"),
        ("statistics in Python", r"/(statistics|fractions|decimal)\.py\b"),
        ("work with NumPy", r"^numpy/"),
        ("pickling", r"/pickle\.py\b|^(cloudpickle|dill)/"),
        ("writing tensors out as text", r"^torch/_tensor_str\b|Tensor\.__(format|repr|str)__"),
        (WRITING, r"/(shutil|tempfile|zipfile|tarfile|gzip|pathlib)\b"),
        ("hashing", r"/hashlib\.py\b"),
    )
)
"""By file and function of what the line calls; the first that matches counts."""

_TEXT = tuple(
    (words, re.compile(marks))
    for words, marks in (
        (SLEEPING, r"\b(sleep|usleep|pause_for|wait_until)\("),
        (SUBPROCESS, r"\bsubprocess\.|\bos\.(system|popen)\(|\bcheck_output\("),
        ("collecting garbage", r"\bgc\.collect\("),
        ("printing", r"\bprint\(|\b(stdout|stderr)\.(write|flush)\("),
        ("writing logs", r"\b(log|logger|logging|writer|log_file)\.\w+\(|\.flush\("),
        (WRITING, r"\bfsync\("),
        (WRITING, r"\.(write|write_text|write_bytes|writelines|writerow)\(|\bopen\("),
        ("copying objects (copy.deepcopy)", r"\bdeepcopy\("),
        ("hashing", r"\b(hashlib|sha\d+|md5|digest|blake2\w)\b"),
        ("pickling", r"\bpickle\.(dump|dumps|load|loads)\("),
        ("statistics in Python", r"\.(tolist|item)\(|(?<![.\w])(sum|float|int|abs|min|max)\("),
        ("work with NumPy", r"\bnp\.|\.numpy\("),
        (LOOP, r"^\s*for\b|\bfor\b.+\bin\b"),
    )
)
"""By the text of the line: functions written in C are no frames of their own."""

VAGUE = frozenset({"", "statistics in Python", "work with NumPy", LOOP})
"""Words for lines that may also run operators of the model's own work."""

_REPORTING = re.compile(
    r"^(wandb\w*|mlflow|comet_ml|neptune|clearml|aim|dvclive|matplotlib|seaborn|plotly|pandas"
    r"|polars|sklearn|tqdm|rich|progressbar|loguru|structlog|requests|urllib3|httpx)/"
    r"|tensorboard|\b(logging|json)/|/(subprocess|csv)\.py\b"
)
"""What reports, draws, counts or asks elsewhere, whoever calls it."""

_SAVING = re.compile(
    r"\bpickle\.dump\(|\b(joblib|cloudpickle|dill)\.dump\(|\bnp\.savez?\w*\(|\bnumpy\.savez?\w*\("
    r"|\bsave_(file|model|pretrained|checkpoint|state|weights)\(|\btorch\.save\("
)


@lru_cache(maxsize=8192)
def words_of(file: str, line: int, via: str, inner: str) -> str:
    """What a sample there was doing, empty where that is not known."""
    return _of_frame(via) or _of_frame(inner) or _of_text(text_of(file, line))


@lru_cache(maxsize=4096)
def reports(frame: str) -> bool:
    """Whether that frame is of a library for reports: part of no model."""
    return _REPORTING.search(frame) is not None


@lru_cache(maxsize=8192)
def saves(file: str, line: int) -> bool:
    """Whether the text of that line writes a model or another large object to a file."""
    return _SAVING.search(text_of(file, line)) is not None


def text_of(file: str, line: int) -> str:
    """The line, empty where the file cannot be read here: it may have come from elsewhere."""
    return linecache.getline(file, line).strip() if _is_readable(file) else ""


@lru_cache(maxsize=512)
def _is_readable(file: str) -> bool:
    path = Path(file)
    try:
        is_source = path.suffix == ".py" and path.is_file()
        return is_source and path.stat().st_size <= LONGEST_SOURCE
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=4096)
def _of_frame(frame: str) -> str:
    return next((words for words, marks in _CALLED if marks.search(frame)), "") if frame else ""


@lru_cache(maxsize=4096)
def _of_text(text: str) -> str:
    return next((words for words, marks in _TEXT if marks.search(text)), "") if text else ""
