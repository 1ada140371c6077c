"""Callback for Hugging Face's Trainer, which trains at ŵ and evaluates at w: save and finish at w as well, and log."""

from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from .statistics import OPTIMIZERS, statistics


class AdamPlusCallback(TrainerCallback):
    """Trainer callback that saves checkpoints and finishes at w, and adds ‖z‖ and η to what the Trainer logs.

    Without it, a checkpoint holds w only if the same step was evaluated, and a run may end at ŵ. Pass it after
    callbacks that request checkpoints: if a later one does so at the end of a step, the checkpoint may hold ŵ.

    Each line of the log that has the training loss gets `optimizer/norm` (‖z‖), `optimizer/eta` (η) and
    `optimizer/norm_sum` (Σ‖z‖). They are in `trainer_state.json`, and reach the callbacks after this one. The reporters
    that `report_to` makes come before it, so pass reporters as callbacks instead, after this one.

    Args:
        log: whether to log them. On an accelerator, each line of the log waits for the device.

    Example:
        >>> from transformers import Trainer, TrainingArguments
        >>> from adamplus.integrations.transformers import AdamPlusCallback
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = adamplus.AdamPlus(model.parameters())
        >>> arguments = TrainingArguments(use_cpu=True, report_to=[])
        >>> trainer = Trainer(model, arguments, optimizers=(optimizer, None), callbacks=[AdamPlusCallback()])
    """

    def __init__(self, log: bool = True) -> None:
        self.log: bool = log

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Raise a TypeError if the run has neither AdamPlus nor SpectralPlus."""
        optimizer = kwargs["optimizer"]
        given = _unwrapped(optimizer)
        if not isinstance(given, OPTIMIZERS):
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

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Add ‖z‖ and η to a line with the training loss."""
        logs = kwargs["logs"]
        if self.log and "loss" in logs:
            found = statistics(_unwrapped(kwargs["optimizer"]))
            logs.update(found)
            state.log_history[-1].update(found)


def _unwrapped(optimizer: Any) -> Any:
    """The optimizer inside of Accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)
