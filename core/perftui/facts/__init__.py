"""Figures of a run or a trace, worked out once; rules, fixes, report and screens read them here.

"Unknown if" in what describes one: it raises ``UnknownError``; "not applicable if":
``NotApplicableError``."""
