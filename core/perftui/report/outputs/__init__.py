"""What the JSON of each command holds: the one description that code and schema share."""
