"""Why a CPU step of Adam⁺ takes longer than torch's fused Adam, though both move 28 bytes per parameter.

A step of Adam⁺ reads 20 bytes per float32 parameter and writes 8: z and g for the norm, then ŵ, z and g again. Adam
reads 16 and writes 12. This script measures both passes and Adam beside loops that only read, and prints the speed of
reading. Where reads are the limit, the two passes cannot take less than 20/16 of Adam's time at the same speed.
Prefetch instructions, wider vectors and huge pages are measured, too.

    python benchmarks/cpu_reads.py [--threads 1] [--rounds 40]
"""

import argparse
import ctypes
import mmap
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from adamplus import AdamPlus
from adamplus.optim._execution.native import Table

SIZE = 24_576_000
SOURCE = r"""
/* Sum of `count` arrays: what reading alone takes. */
float sum_of_arrays(const float *const *arrays, long count, long begin, long end)
{
    float lanes[64] = {0}, sum = 0;
    for (long i = begin; i < end; i += 64)
        for (long a = 0; a < count; a++)
            for (int k = 0; k < 64; k++)
                lanes[k] += arrays[a][i + k];
    for (int k = 0; k < 64; k++)
        sum += lanes[k];
    return sum;
}
float with_prefetch(const float *const *arrays, long count, long begin, long end)
{
    float lanes[64] = {0}, sum = 0;
    for (long i = begin; i < end; i += 64)
        for (long a = 0; a < count; a++) {
            for (int line = 0; line < 4; line++)
                __builtin_prefetch(arrays[a] + i + 512 + 16 * line);
            for (int k = 0; k < 64; k++)
                lanes[k] += arrays[a][i + k];
        }
    for (int k = 0; k < 64; k++)
        sum += lanes[k];
    return sum;
}
void run(int prefetch, const float *const *arrays, long count, long size, float *sums, int threads)
{
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; t++)
        sums[t] = (prefetch ? with_prefetch : sum_of_arrays)(arrays, count, size / threads * t,
                                                             size / threads * (t + 1));
}
"""


def compiled(flags: list[str]) -> ctypes.CDLL:
    """The loops, compiled with these flags."""
    folder = Path(tempfile.mkdtemp())
    (folder / "reads.c").write_text(SOURCE)
    command = ["cc", "-O3", "-ffast-math", "-fopenmp", "-shared", "-fPIC", *flags, "-o", "reads.so", "reads.c"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "reads.so"))


def huge(size: int) -> Tensor:
    """Zeros in huge pages, where the system has them."""
    memory = mmap.mmap(-1, 4 * size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.float32).fill_(0.5)


def reading(library: ctypes.CDLL, arrays: list[Tensor], threads: int, prefetch: bool = False) -> Callable[[], None]:
    """Call that reads these arrays once."""
    pointers = (ctypes.c_void_p * len(arrays))(*[a.data_ptr() for a in arrays])
    sums = (ctypes.c_float * threads)()
    return lambda: library.run(int(prefetch), pointers, ctypes.c_long(len(arrays)), ctypes.c_long(SIZE), sums, threads)


def main() -> None:
    """Measure every loop in turn, many times, and print the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="threads of every loop")
    parser.add_argument("--rounds", type=int, default=40, help="times that each loop is measured")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    adam = torch.optim.Adam([torch.nn.Parameter(torch.randn(SIZE))], lr=1e-4, fused=True)
    plus = AdamPlus([torch.nn.Parameter(torch.randn(SIZE))], lr=1e-4)
    for optimizer in (adam, plus):
        p = optimizer.param_groups[0]["params"][0]
        p.grad = torch.randn_like(p) * 0.01
        optimizer.step()
    p = plus.param_groups[0]["params"][0]
    w_hat, g, z = p.detach(), p.grad, plus.state[p]["z"]
    table = Table([w_hat], [g], [z])
    scalar, settings = [torch.tensor(1e-9)], {"weight": torch.tensor([0.1], dtype=torch.float64)}
    keep = torch.ones(1, dtype=torch.float64)
    usual, wide = compiled(["-mavx2", "-mfma"]), compiled(["-march=native", "-mprefer-vector-width=512"])
    third = torch.ones(SIZE)
    loops: list[tuple[str, int, int, Callable[[], object]]] = [
        ("read 2 arrays", 8, 0, reading(usual, [g, z], options.threads)),
        ("… with prefetch instructions", 8, 0, reading(usual, [g, z], options.threads, prefetch=True)),
        ("… with 512-bit vectors", 8, 0, reading(wide, [g, z], options.threads)),
        ("… in huge pages", 8, 0, reading(usual, [huge(SIZE), huge(SIZE)], options.threads)),
        ("read 3 arrays", 12, 0, reading(usual, [g, z, third], options.threads)),
        ("first pass: the norm", 8, 0, lambda: table.norms(**settings)),
        ("second pass: the update", 12, 8, lambda: table.update(scalar, scalar, keep=keep, **settings)),
        ("step of Adam⁺", 20, 8, plus.step),
        ("step of torch's fused Adam", 16, 12, adam.step),
    ]
    times: list[list[float]] = [[] for _ in loops]
    with torch.no_grad():
        for _ in range(options.rounds):
            for (_, _, _, call), own in zip(loops, times, strict=True):
                begin = time.perf_counter()
                call()
                own.append(time.perf_counter() - begin)
    print(
        f"{SIZE:,} float32 parameters, {options.threads} thread(s), torch {torch.__version__}, best of {options.rounds}"
    )
    print(f"{'loop':30} {'reads':>6} {'writes':>6} {'ms':>7} {'GB/s read':>10} {'GB/s':>6}")
    best = [min(own) for own in times]
    for (name, reads, writes, _), seconds in zip(loops, best, strict=True):
        each = SIZE / seconds / 1e9
        print(
            f"{name:30} {reads:6} {writes:6} {seconds * 1e3:7.2f} {reads * each:10.1f} {(reads + writes) * each:6.1f}"
        )
    ratios = sorted(a / b for a, b in zip(times[-2], times[-1], strict=True))
    print(f"Adam⁺ / Adam: {best[-2] / best[-1]:.2f} by the best, {ratios[len(ratios) // 2]:.2f} by the median of pairs")


if __name__ == "__main__":
    sys.exit(main())
