"""The Ops screen: operators and kernels as tables, a call tree, and a page for each."""
