"""What is kept of runs: folders, specifications, provenance and digests of code."""
