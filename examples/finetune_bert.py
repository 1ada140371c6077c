"""Fine-tune a tiny BERT with Hugging Face's Trainer and Adam⁺: half a minute on a CPU, and nothing is downloaded.

    pip install transformers accelerate
    python examples/finetune_bert.py

The model has random weights, and the reviews are made here: is there more praise in one, or more blame? For a real
model, replace `new_model` and `reviews` by `from_pretrained` and a tokenizer. The rest stays.
"""

import argparse
import random
import warnings
from typing import Any

from torch import nn
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import EvalPrediction

from adamplus import AdamPlus
from adamplus.integrations.transformers import AdamPlusCallback

GOOD = ("great", "fine", "lovely", "bright", "clever")
BAD = ("awful", "dull", "weak", "grim", "clumsy")
PLAIN = ("the", "film", "plot", "cast", "was", "and", "very", "music", "scenes", "a")
NUMBERS = {word: i for i, word in enumerate(("[PAD]", "[CLS]", *GOOD, *BAD, *PLAIN))}
LENGTH = 12


def reviews(number: int, seed: int) -> list[dict[str, Any]]:
    """Reviews as tokens: three words of praise or blame, of which the majority is the label, between plain words."""
    source = random.Random(seed)
    rows = []
    for _ in range(number):
        signs = [source.randrange(2) for _ in range(3)]
        words = [source.choice(GOOD if sign else BAD) for sign in signs]
        words += source.choices(PLAIN, k=source.randint(2, LENGTH - 4))
        source.shuffle(words)
        label = int(sum(signs) >= 2)
        tokens = [NUMBERS["[CLS]"], *(NUMBERS[w] for w in words)]
        mask = [1] * len(tokens) + [0] * (LENGTH - len(tokens))
        rows.append({"input_ids": tokens + [0] * (LENGTH - len(tokens)), "attention_mask": mask, "labels": label})
    return rows


def new_model() -> BertForSequenceClassification:
    """A BERT of two layers."""
    config = BertConfig(
        vocab_size=len(NUMBERS),
        max_position_embeddings=LENGTH,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        initializer_range=0.1,  # random weights of the usual 0.02 hardly begin to learn on so few reviews
    )
    return BertForSequenceClassification(config)


def groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay for matrices, and none for norms and biases."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    """The share of reviews whose label is found."""
    scores: Any = prediction.predictions
    return {"accuracy": float((scores.argmax(-1) == prediction.label_ids).mean())}


def main() -> None:
    """Train, evaluate at w, and save w."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--lr", type=float, default=1.0, help="α of Adam⁺ [default: 1]")
    parser.add_argument("--epochs", type=float, default=4, help="passes over the reviews [default: 4]")
    parser.add_argument("--reviews", type=int, default=2000, help="reviews to train with [default: 2000]")
    parser.add_argument(
        "--out", default="runs/bert", help="folder of checkpoints and of the model [default: runs/bert]"
    )
    args = parser.parse_args()

    set_seed(0)
    model = new_model()
    optimizer = AdamPlus(groups(model, weight_decay=1e-5), lr=args.lr)
    arguments = TrainingArguments(
        args.out,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=32,
        lr_scheduler_type="cosine",
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=50,
        report_to=[],  # reporters that log ‖z‖ and η come after the callback, in the list below
        disable_tqdm=True,
    )
    warnings.filterwarnings("ignore", ".*pin_memory.*")  # torch's, on a machine without an accelerator
    trainer = Trainer(
        model,
        arguments,
        train_dataset=reviews(args.reviews, seed=1),  # pyright: ignore[reportArgumentType]
        eval_dataset=reviews(500, seed=2),  # pyright: ignore[reportArgumentType]
        compute_metrics=accuracy,
        optimizers=(optimizer, None),  # the Trainer makes the schedule
        callbacks=[AdamPlusCallback()],  # checkpoints and the end are at w, and ‖z‖ and η are logged
    )
    trainer.train()
    trainer.save_model(args.out)
    print(f"accuracy at w: {trainer.evaluate()['eval_accuracy']:.3f}")


if __name__ == "__main__":
    main()
