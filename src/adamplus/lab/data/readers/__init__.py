"""Readers of data sets in their official layouts."""
