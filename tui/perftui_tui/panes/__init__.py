"""Parts of screens: the meters, the bar of a step, findings, the top operators."""
