"""The Overview screen: headline, meters, findings and gaps."""
