"""The Compare screen: two runs, before and after."""
