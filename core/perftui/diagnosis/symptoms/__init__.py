"""The rules, one file for each family of symptoms."""
