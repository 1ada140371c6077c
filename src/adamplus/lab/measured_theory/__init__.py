"""The paper's theory, measured: what `adamplus theory` runs."""
