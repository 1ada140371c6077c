"""Compiles `native.c` into the package where there is a C compiler; where there is none, the package does without."""

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/adamplus/optim/_execution/native.c"
FLAGS = ["-O3", "-std=gnu11", "-shared", "-fPIC", "-ffp-contract=off"]
FMA = {"x86_64": ["-mavx2", "-mfma"], "AMD64": ["-mavx2", "-mfma"]}  # elsewhere every CPU that torch knows has it


def compiler() -> list[str] | None:
    """The C compiler: $CC, or the first of the usual names."""
    for name in [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]:
        words = shlex.split(name)
        if shutil.which(words[0]):
            return words
    return None


def compile_native(source: Path, library: Path) -> str | None:
    """Make the library. Where that cannot be, there is none, and the answer is why."""
    library.unlink(missing_ok=True)
    if (words := compiler()) is None:
        return "there is no C compiler"
    made = library.with_name(library.name + ".new")  # whoever reads the library never finds half of it
    flags = [*FLAGS, *FMA.get(platform.machine(), []), f"-DSOURCE={zlib.crc32(source.read_bytes())}u"]
    command = [*words, *flags, "-o", str(made), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"{shlex.join(command)} failed with exit status {done.returncode}: {done.stderr.strip()}"
    made.replace(library)
    return None


class NativeBuildHook(BuildHookInterface[Any]):
    """Hatchling's: runs before a wheel is made, an editable one included."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in place, and have the library in the wheel."""
        source = Path(self.root, SOURCE)
        library = source.with_name(source.name + ".so")
        if (why_not := compile_native(source, library)) is not None:
            self.app.display_warning(f"CPU steps will be slower: {why_not}")
            return
        build_data["artifacts"].append(f"/{SOURCE}.so")
        build_data["pure_python"] = False
        # No Python header is used: any Python 3 of this platform will do.
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
