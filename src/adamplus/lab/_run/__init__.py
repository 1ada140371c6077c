"""One training run: everything that decides its numbers, and nothing else."""
