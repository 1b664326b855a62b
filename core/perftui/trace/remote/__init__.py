"""Traces named by a URL: what fsspec opens, such as object stores, shared disks and web servers."""
