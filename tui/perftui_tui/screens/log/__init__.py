"""The Log screen: what the script printed."""
