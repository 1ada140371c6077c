"""The commands of `adamplus`, one file each."""
