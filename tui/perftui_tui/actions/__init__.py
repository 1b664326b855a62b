"""What a person can do from several screens: try a fix, play a run, copy, compare."""
