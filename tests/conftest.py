"""Settings of every test."""

import os

# Trainings of the tests share few cores with one another: intra-op threads that wait for a core
# made steps ten times longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")
