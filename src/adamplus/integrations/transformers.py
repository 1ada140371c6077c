"""Callback for Hugging Face's Trainer, which trains at ŵ and evaluates at w: save and finish at w as well."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from adamplus import AdamPlus, SpectralPlus


class AdamPlusCallback(TrainerCallback):
    """Trainer callback that saves checkpoints and finishes at w.

    Without it, a checkpoint holds w only if the same step was evaluated, and a run may end at ŵ. Pass it as the last
    callback: if a later one requests a checkpoint at the end of a step, the checkpoint may hold ŵ.

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
        """Raise a TypeError if the run has neither AdamPlus nor SpectralPlus."""
        optimizer = kwargs["optimizer"]
        given = getattr(optimizer, "optimizer", optimizer)  # Accelerate wraps the optimizer
        if not isinstance(given, AdamPlus | SpectralPlus):
            raise TypeError(
                f"AdamPlusCallback needs AdamPlus or SpectralPlus, but the Trainer has {type(given).__name__}: "
                "leave the callback out, or pass optimizers=(AdamPlus(...), None)"
            )
        given._know(kwargs["model"])

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Put w into the parameters before a checkpoint. The Trainer restores ŵ before the next forward pass."""
        if control.should_save:
            kwargs["optimizer"].eval()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Put w into the parameters before a checkpoint, the loading of the best model, or the end of the run."""
        kwargs["optimizer"].eval()
