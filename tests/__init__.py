"""Has `tests` be this folder, also where another package is installed by that name."""
