"""How the training is set up: the ``settings`` note, written once while it is under way."""
