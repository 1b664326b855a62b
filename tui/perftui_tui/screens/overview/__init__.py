"""The Overview screen: headline, meters, findings, gaps and top operators."""
