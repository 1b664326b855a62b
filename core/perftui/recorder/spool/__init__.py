"""The spool of a run, through which its agents hand over data."""
