"""Figures of a run or a trace, worked out once; rules, fixes, report and screens read them here."""
