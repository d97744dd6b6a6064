"""Recordings of real machines, and fake machines that give the recorded answers again."""
