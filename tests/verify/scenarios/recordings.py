"""Recorded runs with planted causes: which are judged, and what must be said of them."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.verify.scenarios.expected import HEALTHY_RULE, Expected, Kind, Planted, planted_in

RECORDED_AT = "/trainings/"
"""Where the scripts lay, by the paths in the recordings."""

REPAIRED = ("fixed", "applied")
"""Forms of a recording without the cause: mended by hand, and by perftui."""

LEAST_GAIN = 1.1
"""Where less is won, the cause is too small to be asked for."""


def recordings(
    collection: Path, unpacked: Path, chosen: Callable[[str], bool] = lambda _name: True
) -> Iterator[tuple[Expected, Path]]:
    """Every run of ``collection`` that counts and is chosen by name, with its directory below
    ``unpacked``.

    ``truth.json`` tells what was planted, ``trainings`` holds the scripts, ``runs`` an archive of
    run directories for each: ``planted`` and ``detailed`` with the cause, ``fixed`` and
    ``applied`` without."""
    for truth in json.loads((collection / "truth.json").read_text()):
        healthy = truth["rule"] == HEALTHY_RULE
        if not healthy and truth["gain"] is not None and truth["gain"] < LEAST_GAIN:
            continue
        names = {form: f"gpu/{truth['name']}/{form}" for form in truth["recordings"]}
        wanted = {form: name for form, name in names.items() if chosen(name)}
        if not wanted:
            continue
        with tarfile.open(collection / "runs" / f"{truth['name']}.tar.xz") as archive:
            archive.extractall(unpacked, filter="data")
        scripts = _with_scripts(collection / "trainings", unpacked)
        _redirect(unpacked / truth["name"], scripts)
        for form, name in wanted.items():
            kind = Kind.REPAIRED if form in REPAIRED else Kind.PLANTED
            yield (
                Expected(
                    name,
                    Kind.HEALTHY if healthy else kind,
                    () if healthy else tuple(truth["rule"].split(", ")),
                    _planted(collection, truth["place"]) if kind is Kind.PLANTED else None,
                    truth["gain"] if kind is Kind.PLANTED else None,
                ),
                unpacked / truth["name"] / form,
            )


def _with_scripts(trainings: Path, unpacked: Path) -> Path:
    """A copy of the scripts, older than every recording of them: a report reads them where they
    have not been changed since."""
    scripts = unpacked / "trainings"
    if not scripts.exists():
        shutil.copytree(trainings, scripts)
        for script in scripts.iterdir():
            os.utime(script, (0, 0))
    return scripts


def _redirect(recorded: Path, scripts: Path) -> None:
    for file in (*recorded.rglob("run.json"), *recorded.rglob("*.jsonl")):
        file.write_text(file.read_text().replace(RECORDED_AT, f"{scripts}/"))


def _planted(collection: Path, place: str | None) -> Planted | None:
    if place is None:
        return None
    file, _, lines = place.rpartition(":")
    source = (collection / "trainings" / file).read_text()
    return planted_in(file, source, map(int, lines.split(",")))
