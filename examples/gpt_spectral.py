"""Train a small GPT with SpectralPlus on Python's own documentation: a minute on a CPU, and nothing is downloaded.

    python examples/gpt_spectral.py
    python examples/gpt_spectral.py --optimizer adamw --lr 0.002

`spectral_groups` gives every parameter a geometry, and prints the routing as a table: hidden matrices take spectral
steps, and embeddings, the output head and vectors take sign steps. All of them have one buffer of state.
"""

import argparse
import math
import time
from pydoc_data.topics import topics

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from adamplus import SpectralPlus, spectral_groups

CONTEXT = 64
BATCH = 32
EVALUATED = 20  # batches


class GPT(nn.Module):
    """A language model of bytes, made of torch's own layers."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(CONTEXT, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the next byte at each position."""
        x = self.blocks(self.token(x) + self.place.weight, mask=self.mask, is_causal=True)
        return self.head(self.norm(x))


def batch_of(text: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random windows, and the bytes that follow each of theirs."""
    starts = torch.randint(len(text) - CONTEXT, (BATCH, 1), generator=generator)
    rows = text[starts + torch.arange(CONTEXT + 1)].long()
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def evaluate(model: nn.Module, text: Tensor) -> float:
    """Nats per byte of validation text, at w if the optimizer follows the model."""
    model.eval()
    generator = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(EVALUATED):
        x, y = batch_of(text, generator)
        losses.append(cross_entropy(model(x).flatten(0, 1), y.flatten()))
    model.train()
    return torch.stack(losses).mean().item()


def main() -> None:
    """Train, and print the loss on the last tenth of the text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--optimizer", choices=("spectral-plus", "adamw"), default="spectral-plus")
    parser.add_argument("--lr", type=float, default=0.02, help="learning rate [default: 0.02]")
    parser.add_argument("--steps", type=int, default=400, help="steps [default: 400]")
    parser.add_argument("--width", type=int, default=96, help="width of the model [default: 96]")
    args = parser.parse_args()

    torch.manual_seed(0)
    text = torch.frombuffer(bytearray("".join(topics.values()).encode()), dtype=torch.uint8)
    train, validation = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    model = GPT(layers=3, width=args.width, heads=4)
    if args.optimizer == "adamw":
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    else:
        groups = spectral_groups(model)
        print(groups)
        optimizer = SpectralPlus(groups, lr=args.lr, beta=0.05, lookahead=1.0, weight_decay=0.1)
        optimizer.follow(model)

    def factor(step: int) -> float:
        """Warm-up over a twentieth of the steps, then a cosine to 2 %."""
        warm_up = max(1, args.steps // 20)
        progress = max(0, step - warm_up) / max(1, args.steps - warm_up)
        return min(1.0, (step + 1) / warm_up) * (0.02 + 0.98 * (1 + math.cos(math.pi * min(1.0, progress))) / 2)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    generator, began = torch.Generator().manual_seed(1), time.perf_counter()
    model.train()
    for step in range(1, args.steps + 1):
        x, y = batch_of(train, generator)
        optimizer.zero_grad()
        loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == args.steps:
            seconds, validated = time.perf_counter() - began, evaluate(model, validation)
            print(f"step {step:4d}  loss {loss:.3f}  validation {validated:.3f} nats per byte  {seconds:.0f} s")


if __name__ == "__main__":
    main()
