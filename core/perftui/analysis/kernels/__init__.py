"""What the devices ran: kernels by name, their launches, and what ncu measured of them."""
