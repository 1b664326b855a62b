"""Disks of the machine, and the device or NFS mount that holds the data set."""
