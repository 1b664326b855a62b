"""Trials: a change of a training measured by pairs of runs, with it and without."""
