"""Rules about steps: uneven, growing, or not recorded well enough."""
