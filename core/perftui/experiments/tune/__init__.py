"""Tuning: one fix after the other is tried, and what is proven stays."""
