"""What answers a finding: a runtime override for one trial, or a patch of the source."""
