"""Facts about data loaders, and the time that each batch takes to make."""
