"""Readers of the data sets, in their official layouts."""
