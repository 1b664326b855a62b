"""Memory of the machine or of the container, and /dev/shm."""
