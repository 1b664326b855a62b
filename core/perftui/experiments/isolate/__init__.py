"""What each side of a training costs: it is run with that side left out."""
