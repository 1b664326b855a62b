"""Pure functions from a Trace to tables: activity, operators, kernels, gaps, steps, the step budget."""
