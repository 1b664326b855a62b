"""The steps of a run or a trace: which ones count, how long they take, and where that goes."""
