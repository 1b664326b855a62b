"""What the agent hands to the recorder: the ring of intervals and the notes."""
