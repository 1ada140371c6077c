"""PyTorch Lightning callback: train at ŵ, and validate, save and finish at w."""

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from adamplus import AdamPlus, SpectralPlus

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    try:
        from lightning.pytorch import Callback, LightningModule, Trainer
    except ModuleNotFoundError:  # the same library under its older name
        from pytorch_lightning import Callback, LightningModule, Trainer


class AdamPlusCallback(Callback):
    """Lightning callback that trains at ŵ, and evaluates, saves and finishes at w.

    It switches every AdamPlus and SpectralPlus of the run, and leaves other optimizers alone. Every checkpoint of
    `trainer.save_checkpoint` has w in the model and resumes bit for bit. This includes those of `ModelCheckpoint` and
    of the weights alone. After `fit()`, even if it failed, the model is at w.

    Example:
        >>> from lightning.pytorch import Trainer
        >>> from adamplus.integrations.lightning import AdamPlusCallback
        >>> trainer = Trainer(accelerator="cpu", callbacks=[AdamPlusCallback()], logger=False)
    """

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Wrap `trainer.save_checkpoint`, because Lightning has no hook for checkpoints of the weights alone."""
        if "save_checkpoint" not in vars(trainer):
            vars(trainer)["save_checkpoint"] = partial(_save_at_w, trainer)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raise a TypeError if the run has neither AdamPlus nor SpectralPlus."""
        for optimizer in _ours(trainer):
            optimizer._know(pl_module)
        if not _ours(trainer):
            names = ", ".join(type(optimizer).__name__ for optimizer in trainer.optimizers) or "no optimizer"
            raise TypeError(
                f"AdamPlusCallback needs AdamPlus or SpectralPlus, but configure_optimizers() gave {names}: "
                "leave the callback out, or return one of them that is not wrapped"
            )

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Put ŵ into the parameters, also after an evaluation since the last batch."""
        for optimizer in _ours(trainer):
            optimizer.train()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put w into the parameters."""
        _eval(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leave w in the parameters after training."""
        _eval(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave w in the parameters after an exception, unless it interrupted a step: then w does not exist."""
        for optimizer in _ours(trainer):
            if not optimizer._torn:
                optimizer.eval()


def _ours(trainer: Trainer) -> list[AdamPlus | SpectralPlus]:
    return [optimizer for optimizer in trainer.optimizers if isinstance(optimizer, AdamPlus | SpectralPlus)]


def _eval(trainer: Trainer) -> None:
    for optimizer in _ours(trainer):
        optimizer.eval()


def _save_at_w(trainer: Trainer, *args: Any, **kwargs: Any) -> None:
    with ExitStack() as stack:
        for optimizer in _ours(trainer):
            stack.enter_context(optimizer.averaged())
        type(trainer).save_checkpoint(trainer, *args, **kwargs)
