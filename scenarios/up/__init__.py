"""A simulated cluster that lives in real time until it is ended: ``simkubelet up``, and what is done to it then."""
