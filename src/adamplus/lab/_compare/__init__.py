"""Comparisons: what is asked for, planned, searched and reused."""
