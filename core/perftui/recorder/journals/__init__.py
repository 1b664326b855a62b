"""The journals of a run that the recorder writes."""
