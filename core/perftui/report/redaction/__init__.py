"""Reports that can be shown to others: without what names people, machines and secrets."""
