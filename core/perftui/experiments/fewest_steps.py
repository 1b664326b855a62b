"""How much of each run a comparison needs, for readers that must not load numpy."""

from __future__ import annotations

FEWEST_STEPS = 20
"""Steady steps of each run below which there is no verdict."""
