"""Examples at the end of `--help`."""


def examples(*commands: str, see: str) -> str:
    """The text at the end of a command's help: commands to copy, and the page that explains more."""
    return "\n\n".join(["Examples:", *(f"  {command}" for command in commands), f"More: {see}"])
