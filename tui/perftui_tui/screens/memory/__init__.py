"""The Memory screen: memory over time, and allocations by call site."""
