"""Callbacks for trainers that do not switch between ŵ and w by themselves; `docs/trainers.md` tells which do."""
