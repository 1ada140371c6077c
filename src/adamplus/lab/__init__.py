"""What measures and compares optimizers (`pip install 'adamplus[lab]'`); nothing in `adamplus.optim` knows of it."""
