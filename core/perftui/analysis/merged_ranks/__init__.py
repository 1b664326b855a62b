"""The traces of several ranks on one clock."""
