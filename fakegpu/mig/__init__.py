"""MIG: GPU instances and compute instances of a fake GPU."""
