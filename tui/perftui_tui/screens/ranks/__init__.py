"""The Ranks screen: the ranks of a distributed training side by side."""
