"""Compile the fused kernels for a GPU that this machine lacks, with the arguments of real steps.

`python compile_kernels.py CAPABILITY` prints a line of JSON for each kernel that was compiled. Steps are taken on CPU
tensors, and each launch is a compilation instead; what they would have computed is not looked at here.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor, nn
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from adamplus import AdamPlus
from adamplus.optim._execution.fused import tables

CAPABILITY = int(sys.argv[1])
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
SCALARS = {torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.float32: "fp32", torch.float64: "fp64"}
seen: set[str] = set()


def launch(kernel: Any, programs: int, warps: int, early: bool, *arguments: Any) -> None:
    """Compile the kernel that would have been launched, once for each kind of arguments."""
    values = dict(zip(kernel.arg_names, arguments, strict=True))
    values["EARLY"] = CAPABILITY >= 90  # as `Tables` sets it on such a GPU
    constants = {name: values[name] for name in (kernel.arg_names[i] for i in kernel.constexprs)}
    signature = {name: "constexpr" if name in constants else kind(value) for name, value in values.items()}
    named = {name: getattr(value, "name", value) for name, value in constants.items()}
    if (key := json.dumps([kernel.__name__, named, signature])) in seen:
        return
    seen.add(key)
    # Triton looks at values, too: torch aligns what it allocates, and 0 can be divided by 16 as well.
    whole = [i for i, value in enumerate(values.values()) if isinstance(value, Tensor) or value == 0]
    aligned = {(i,): [["tt.divisibility", 16]] for i in whole if kernel.arg_names[i] not in constants}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32), options={"num_warps": warps})
    print(json.dumps({"kernel": kernel.__name__, **named, **resources(compiled)}), flush=True)


def kind(value: Any) -> str:
    """Triton's name of a type."""
    return f"*{SCALARS[value.dtype]}" if isinstance(value, Tensor) else "i32"


def resources(compiled: Any) -> dict[str, Any]:
    """Bytes of local memory, which holds spilled registers, and the number of 16-byte loads and stores per thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        command = [str(TOOLS / "cuobjdump"), "--dump-resource-usage", file.name]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (stack, local), *_ = re.findall(r"STACK:(\d+).*?LOCAL:(\d+)", usage)
    accesses = re.findall(r"(ld|st)\.global\S*?\.v(\d)\.b(\d+)", compiled.asm["ptx"])
    wide = [way for way, count, bits in accesses if int(count) * int(bits) == 128]
    return {"spilt": int(stack) + int(local), "loads": wide.count("ld"), "stores": wide.count("st")}


def step(dtype: torch.dtype, amp: bool, misaligned: bool = False, **how: Any) -> None:
    """Take a step of a parameter of a dtype."""
    p = nn.Parameter(torch.randn(2501, dtype=dtype)[1:] if misaligned else torch.randn(2500, dtype=dtype))
    optimizer: Any = AdamPlus([p], fused=True, **how)
    p.grad = torch.randn(2500, dtype=dtype)
    if amp:
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(8.0), torch.zeros(())
    optimizer.step()


tables.INTERPRETED = True  # otherwise tensors on a CPU are refused
tables._launch = launch
for amp in (False, True):
    step(torch.float32, amp)
    step(torch.float32, amp, misaligned=True, weight_decay=0.1)
    step(torch.bfloat16, amp, weight_decay=0.1)
    step(torch.bfloat16, amp, stochastic_rounding=True, state_dtype=torch.bfloat16)
    step(torch.float16, amp)
