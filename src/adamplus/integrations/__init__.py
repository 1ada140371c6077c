"""Callbacks for trainers that do not switch between ŵ and w. `docs/trainers.md` lists what each trainer needs."""
