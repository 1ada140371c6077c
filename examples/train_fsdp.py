"""Train a small GPT on several processes with fully_shard, bfloat16 and Adam⁺, and resume after a crash.

    torchrun --standalone --nproc-per-node 2 --max-restarts 3 examples/train_fsdp.py --out runs/gpt

The text is the manual in Python's `pydoc_data.topics`, byte by byte, so nothing is downloaded. The script uses CUDA and
NCCL if they are available, and CPUs and gloo otherwise. If a process dies, torchrun starts all processes again, and
they resume from the newest complete checkpoint. Repeating the command does the same, with any number of processes. With
the same number, a run on CPUs ends with the same bits as without the crash. If files of a checkpoint are damaged, it is
renamed and the one before it is loaded; if all checkpoints are damaged, the run ends with an error.
"""

import argparse
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

from adamplus import AdamPlus

KEPT = 2  # checkpoints
DIGESTS = "digests.json"  # of a checkpoint's files
EVALUATED = 8  # batches


class Block(nn.Module):
    """Causal attention, then two linear layers, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Output of the layer."""
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, -1))
        attended = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    """A language model of bytes."""

    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the next byte at each position."""
        x = self.token(x) + self.place.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).float()


def join(backend: str) -> None:
    """Join the other ranks, with keys in torchrun's store that only this attempt uses.

    torchrun (torch 2.13) keeps the store when it restarts its workers. A rank that finds the address of a dead rank in
    it waits forever. Nodes may count attempts differently: on several, set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1.
    """
    store, rank, ranks = next(dist.rendezvous("env://"))
    if ranks == int(os.environ["LOCAL_WORLD_SIZE"]):
        store = dist.PrefixStore(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)


def tell(line: str) -> None:
    """Print a line on rank 0."""
    if dist.get_rank() == 0:
        print(line, flush=True)


def sharded(args: argparse.Namespace, device: str) -> GPT:
    """The model, sharded over all ranks: float32 shards, computation in `--dtype`, gradients summed in float32."""
    torch.manual_seed(args.seed)  # every rank draws all weights, so they do not depend on the number of ranks
    model = GPT(args.layers, args.width, args.heads, args.context)
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=getattr(torch, args.dtype), reduce_dtype=torch.float32)
    for module in (*model.blocks, model):
        fully_shard(module, mesh=mesh, mp_policy=policy)
    return model


def batches(text: Tensor, args: argparse.Namespace, device: str) -> Callable[[int], tuple[Tensor, Tensor]]:
    """A function that returns this rank's rows of batch i. They depend only on the seed and i, so no order is saved."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if args.batch % ranks:
        raise SystemExit(f"--batch {args.batch} cannot be cut into {ranks} equal parts: pass a multiple of {ranks}")

    def batch(i: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(args.seed * 1_000_003 + i)
        starts = torch.randint(len(text) - args.context, (args.batch, 1), generator=generator).chunk(ranks)[rank]
        rows = text[starts + torch.arange(args.context + 1)].long().to(device)
        return rows[:, :-1], rows[:, 1:]

    return batch


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy in nats per byte."""
    return cross_entropy(model(x).flatten(0, 1), y.flatten())


def over_ranks(loss: Tensor) -> float:
    """Mean of a loss over all ranks."""
    total = loss.detach().double()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


@torch.no_grad()
def evaluate(model: nn.Module, batch: Callable[[int], tuple[Tensor, Tensor]]) -> float:
    """Loss at w: the optimizer follows the model, so `model.eval()` switches the parameters to w."""
    was_training = model.training
    model.eval()
    loss = over_ranks(torch.stack([loss_of(model, *batch(i)) for i in range(EVALUATED)]).mean())
    model.train(was_training)
    return loss


def checkpoints(out: Path) -> list[Path]:
    """Complete checkpoints, the newest last. A folder is renamed to `step-*` when all of it is written."""
    return sorted(out.glob("step-*"))


def save(model: nn.Module, optimizer: AdamPlus, out: Path, step: int) -> None:
    """Write a checkpoint, each rank its shards, that is either complete or absent. Then remove the oldest."""
    model_state, optimizer_state = get_state_dict(model, optimizer)  # in train mode: ŵ, and what leads to w
    writing = out / f"writing-{step:08d}"
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=writing)  # waits for all ranks
    own = {path.name: digest(path) for path in writing.glob(f"__{dist.get_rank()}_*")}  # as dcp names a rank's files
    digests = gathered(own)
    if dist.get_rank() == 0:
        digests.append({".metadata": digest(writing / ".metadata")})
        (writing / DIGESTS).write_text(json.dumps({name: value for part in digests for name, value in part.items()}))
        writing.rename(out / f"step-{step:08d}")
        for old in checkpoints(out)[:-KEPT]:
            shutil.rmtree(old.rename(out / f"writing-{old.name}"))


def digest(path: Path) -> str:
    """The SHA-256 of a file: torch.load does not notice flipped bits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def gathered(own: Any) -> list[Any]:
    """The objects of all ranks, on all ranks."""
    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, own)
    return parts


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint's files, the same on all ranks. None if they are as they were written."""
    problem = None
    try:
        digests = json.loads((checkpoint / DIGESTS).read_text())
        names = sorted({".metadata", *digests})
        for name in names[dist.get_rank() :: dist.get_world_size()]:  # each rank reads some of them
            if digest(checkpoint / name) != digests[name]:
                problem = f"{name} is not as it was written"
    except (OSError, LookupError, TypeError, ValueError, RecursionError) as error:
        problem = str(error)
    return next((found for found in gathered(problem) if found is not None), None)


def newest_whole(out: Path) -> Path | None:
    """The newest checkpoint that is not damaged. Damaged ones are renamed. None if there is no checkpoint."""
    found: list[Any] = [None]
    if dist.get_rank() == 0:
        for rest in out.glob("writing-*"):
            shutil.rmtree(rest)
        found = [checkpoints(out)]
    dist.broadcast_object_list(found)  # one rank lists them, because file systems may show ranks different files
    damaged: dict[Path, str] = {}
    for checkpoint in reversed(found[0]):
        if (problem := damage(checkpoint)) is not None:
            damaged[checkpoint] = problem
            continue
        for path, problem in damaged.items():
            tell(f"{path} is damaged ({problem}): set aside, going on from {checkpoint.name}")
            if dist.get_rank() == 0:
                shutil.rmtree(out / f"damaged-{path.name}", ignore_errors=True)
                path.rename(out / f"damaged-{path.name}")
        return checkpoint
    if damaged:
        listed = "; ".join(f"{path.name}: {problem}" for path, problem in damaged.items())
        raise SystemExit(f"all checkpoints in {out} are damaged ({listed}): remove them to train from the beginning")
    return None


def resume(model: nn.Module, optimizer: AdamPlus, out: Path) -> int:
    """Load the newest undamaged checkpoint into the present shards. Returns the number of steps that were taken."""
    checkpoint = newest_whole(out)
    if checkpoint is None:
        return 0
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=checkpoint)
    set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
    return optimizer.stats().step


def ship(model: nn.Module, path: Path) -> None:
    """Write w, gathered from all ranks, as one file for `GPT(...).load_state_dict(torch.load(path))`."""
    model.eval()
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        torch.save(state, path.with_suffix(".writing"))
        path.with_suffix(".writing").rename(path)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/train_fsdp"), help="folder that all ranks see")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--every", type=int, default=50, help="steps from one evaluation and checkpoint to the next")
    parser.add_argument("--report", type=int, default=10, help="steps from one line of progress to the next")
    parser.add_argument("--batch", type=int, default=32, help="rows of all ranks together")
    parser.add_argument("--lr", type=float, default=3.0, help="of a new run; a checkpoint brings its own")
    parser.add_argument("--beta", type=float, default=0.1, help="of a new run; a checkpoint brings its own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    for name, default in (("layers", 4), ("width", 128), ("heads", 4), ("context", 128)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def main() -> None:
    """Resume, train, and print results."""
    args = arguments()
    if not dist.is_torchelastic_launched():
        raise SystemExit(f"start it with torchrun: torchrun --standalone --nproc-per-node 2 {__file__}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    join("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    args.out.mkdir(parents=True, exist_ok=True)
    text = torch.frombuffer(bytearray("".join(topics.values()).encode()), dtype=torch.uint8)
    cut = len(text) * 9 // 10
    train_batch, validation_batch = (batches(part, args, device) for part in (text[:cut], text[cut:]))
    model = sharded(args, device)
    optimizer = AdamPlus(model.parameters(), lr=args.lr, beta=args.beta)
    first = resume(model, optimizer, args.out)
    optimizer.follow(model)  # after loading: model.train() and model.eval() move the parameters from here on
    tell(f"{dist.get_world_size()} ranks on {device}, from step {first}")

    began, since = time.perf_counter(), first
    for step in range(first + 1, args.steps + 1):
        optimizer.zero_grad()
        loss = loss_of(model, *train_batch(step))
        loss.backward()
        optimizer.step()
        progress = f"step {step:6d}/{args.steps}  "
        if step % args.report == 0:
            mean, stats, now = over_ranks(loss), optimizer.stats(), time.perf_counter()
            speed = (step - since) * args.batch * args.context / (now - began)
            tell(progress + f"loss {mean:.4f}  ‖z‖ {stats.norm:.3g}  η {stats.eta:.3g}  {speed:,.0f} tokens/s")
            began, since = now, step
        if step % args.every == 0 or step == args.steps:
            # In this order: to w and back is exact to rounding only, and a resumed run does not evaluate again.
            tell(progress + f"validation loss {evaluate(model, validation_batch):.4f} at w")
            save(model, optimizer, args.out, step)

    ship(model, args.out / "model.pt")
    train_loss, validation_loss = evaluate(model, train_batch), evaluate(model, validation_batch)
    tell(f"{args.out / 'model.pt'}: train loss {train_loss!r}, validation loss {validation_loss!r}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    os._exit(0)  # gloo's threads may abort the interpreter on its way out (torch 2.13), which torchrun calls a failure
