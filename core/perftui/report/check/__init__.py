"""`perftui check`: whether a run or trace is within its limits."""
