"""Hugging Face's Trainer: it trains at ŵ and evaluates at w by itself; save and finish at w, too."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from adamplus import AdamPlus


class AdamPlusCallback(TrainerCallback):
    """Have the Trainer save and finish at w.

    Without it, a checkpoint holds w only if it was evaluated in the same step, and a run may end at ŵ. Pass it last:
    a callback behind it that asks for a checkpoint at the end of a step saves where the parameters are.

    Example:
        >>> from transformers import Trainer, TrainingArguments
        >>> from adamplus.integrations.transformers import AdamPlusCallback
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = adamplus.AdamPlus(model.parameters())
        >>> arguments = TrainingArguments(use_cpu=True, report_to=[])
        >>> trainer = Trainer(model, arguments, optimizers=(optimizer, None), callbacks=[AdamPlusCallback()])
    """

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Refuse a run without Adam⁺."""
        optimizer = kwargs["optimizer"]
        given = getattr(optimizer, "optimizer", optimizer)  # inside of Accelerate's
        if not isinstance(given, AdamPlus):
            raise TypeError(
                f"AdamPlusCallback switches an Adam⁺ optimizer, and the Trainer has {type(given).__name__}: "
                "leave the callback out, or pass optimizers=(AdamPlus(...), None)"
            )
        given._know(kwargs["model"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Put w into the parameters before a checkpoint; the Trainer puts ŵ back before the next forward pass."""
        if control.should_save:
            kwargs["optimizer"].eval()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Put w into the parameters, before a checkpoint, the best model's loading, or the end of the run."""
        kwargs["optimizer"].eval()
