"""The processes of a training: starting, watching and ending them."""
