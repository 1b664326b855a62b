"""Recorded runs with planted causes: which are judged, and what must be said of them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.scenarios.expected import HEALTHY_RULE, Expected, Kind, Planted, planted_in

LEAST_GAIN = 1.1
"""Where less is won, the cause is too small to be asked for."""


def recordings(
    collection: Path, unpacked: Path, chosen: Callable[[str], bool] = lambda _name: True
) -> Iterator[tuple[Expected, Path]]:
    """Every run of ``collection`` that counts and is chosen by name, with its directory below
    ``unpacked``.

    ``truth.json`` tells what was planted, ``trainings`` holds the scripts, ``runs`` an archive of
    run directories for each: ``planted`` and ``detailed`` with the cause, ``fixed`` without.
    """
    for truth in json.loads((collection / "truth.json").read_text()):
        healthy = truth["rule"] == HEALTHY_RULE
        if not healthy and truth["gain"] < LEAST_GAIN:
            continue
        names = {form: f"gpu/{truth['name']}/{form}" for form in truth["recordings"]}
        wanted = {form: name for form, name in names.items() if chosen(name)}
        if not wanted:
            continue
        with tarfile.open(collection / "runs" / f"{truth['name']}.tar.xz") as archive:
            archive.extractall(unpacked, filter="data")
        for form, name in wanted.items():
            kind = Kind.REPAIRED if form == "fixed" else Kind.PLANTED
            yield (
                Expected(
                    name,
                    Kind.HEALTHY if healthy else kind,
                    () if healthy else (truth["rule"],),
                    _planted(collection, truth["place"]) if kind is Kind.PLANTED else None,
                    None if form == "fixed" else truth["gain"],
                ),
                unpacked / truth["name"] / form,
            )


def _planted(collection: Path, place: str | None) -> Planted | None:
    if place is None:
        return None
    file, _, line = place.rpartition(":")
    return planted_in(file, (collection / "trainings" / file).read_text(), [int(line)])
