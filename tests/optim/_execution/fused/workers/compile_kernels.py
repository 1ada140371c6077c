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

from adamplus import AdamPlus, SpectralPlus
from adamplus.optim._execution.fused import plan, symmetric, tables

CAPABILITY = int(sys.argv[1])
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
SCALARS = {torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.float32: "fp32", torch.float64: "fp64"}
SCALARS |= {torch.bfloat16: "bf16"}
seen: set[str] = set()


def launch(kernel: Any, programs: int, warps: int, early: bool, *arguments: Any) -> None:
    """Compile the kernel that would have been launched, once for each kind of arguments."""
    values = dict(zip(kernel.arg_names, arguments, strict=True))
    if "EARLY" in values:
        values["EARLY"] = CAPABILITY >= 90  # as `Tables` sets it on such a GPU
    compile_for_gpu(kernel, values, num_warps=warps)


def compile_for_gpu(kernel: Any, values: dict[str, Any], **options: int) -> None:
    """Compile a kernel for these arguments, once."""
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
    compiled = triton.compile(source, target=GPUTarget("cuda", CAPABILITY, 32), options=options)
    print(json.dumps({"kernel": kernel.__name__, **named, **resources(compiled)}), flush=True)


def kind(value: Any) -> str:
    """Triton's name of a type."""
    if isinstance(value, Tensor):
        return f"*{SCALARS[value.dtype]}"
    return "fp32" if isinstance(value, float) else "i32"


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


def spectral_step(dtype: torch.dtype, **how: Any) -> None:
    """Take a step of matrices and a vector of a dtype."""
    ps = [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in ((50, 60), (2500,))]
    groups = [{"params": ps[:1]}, {"params": ps[1:], "geometry": "sign"}]
    optimizer = SpectralPlus(groups, fused=True, **how)
    for p in ps:
        p.grad = torch.randn_like(p)
    optimizer.step()


class Products:
    """The kernel for symmetric products, compiled where it would be launched."""

    def __getitem__(self, grid: Any) -> Any:
        def compiled(*arguments: Any, num_warps: int, num_stages: int) -> None:
            values = dict(zip(product.arg_names, arguments, strict=True))
            compile_for_gpu(product, values, num_warps=num_warps, num_stages=num_stages)

        return compiled


tables.INTERPRETED = True  # otherwise tensors on a CPU are refused
tables._launch = launch
for amp in (False, True):
    step(torch.float32, amp)
    step(torch.float32, amp, misaligned=True, weight_decay=0.1)
    step(torch.bfloat16, amp, weight_decay=0.1)
    step(torch.bfloat16, amp, stochastic_rounding=True, state_dtype=torch.bfloat16)
    step(torch.float16, amp)
plan.computed_dtype = lambda z: torch.bfloat16  # as on CUDA
for dtype in (torch.float32, torch.bfloat16):
    for how in ({}, {"keep_direction": True}, {"lookahead": 0.0, "stochastic_rounding": True}):
        spectral_step(dtype, **how)
product: Any = symmetric.product
symmetric.product = Products()
if CAPABILITY >= 80:  # older GPUs have no bfloat16 products
    for shape in ((2, 256, 512), (2, 300, 200)):
        x = torch.randn(shape, dtype=torch.bfloat16)
        gram = symmetric.symmetric_product(x)
        symmetric.symmetric_product(gram, factor=0.5, diagonal=2.0, added=gram, added_factor=0.5)
    symmetric.symmetric_product(x.mT)
