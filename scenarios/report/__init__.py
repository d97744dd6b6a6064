"""The report of a run as one HTML file: verdicts, and for each story a timeline of what its trace records."""
