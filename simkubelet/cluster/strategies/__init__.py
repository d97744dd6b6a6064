"""What an API server fills in, refuses and keeps of each kind, beyond what it does to every object."""
