"""Rules about the card itself and its memory."""
