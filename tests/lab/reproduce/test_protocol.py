"""The paper's table of experiments, fact by fact."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_sets import write_all
from torch import nn

from adamplus.lab import tasks
from adamplus.lab.data import VARIABLE
from adamplus.lab.models import VGG19, LanguageModel, ResNet18
from adamplus.lab.models.acoustic import AcousticModel

ENDINGS = ("", "-paper")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(root))


def made(name: str) -> tuple[tasks.Task, Any]:
    """A task, and its model without the memory for it."""
    task = tasks.find(name)[0]
    task.data()  # which a model may ask for its size, and which is not to be aligned without memory
    with torch.device("meta"):
        return task, task.model()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("name", "kind"), [("cifar10", ResNet18), ("cifar100", VGG19)])
def test_images_are_trained_for_350_epochs_in_batches_of_128(name: str, kind: type[nn.Module], ending: str):
    task, model = made(name + ending)
    assert (task.epochs, task.batch, task.clip, task.metric) == (350, 128, None, "accuracy")
    assert isinstance(model, kind)


@pytest.mark.parametrize("ending", ENDINGS)
def test_text_is_trained_for_40_epochs_in_20_streams_by_two_layers_of_650(ending: str):
    task, model = made(f"wikitext2{ending}")
    assert (task.epochs, task.batch, task.clip, task.ordered, task.metric) == (40, 1, 0.25, True, "perplexity")
    assert task.data()["train"][0].shape[1:] == (20, 35)
    assert isinstance(model, LanguageModel)
    assert (model.embedding.embedding_dim, model.output.in_features) == (650, 650)
    assert [(layer.input_size, layer.hidden_size) for layer in model.lstm.layers] == [(650, 650)] * 2
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.5}
    assert model.output.weight is not model.embedding.weight


@pytest.mark.parametrize("name", [name + ending for name in ("an4", "swb300") for ending in ENDINGS])
def test_speech_is_trained_for_20_epochs_in_batches_of_256_by_six_layers_of_512_each_way(name: str):
    task, model = made(name)
    assert (task.epochs, task.batch, task.clip, task.metric) == (20, 256, None, "loss")
    assert task.data()["train"][0].shape[1] == 21
    assert isinstance(model, AcousticModel)
    assert (model.lstm.num_layers, model.lstm.hidden_size, model.lstm.bidirectional) == (6, 512, True)
    assert (model.projection.out_features, model.output.in_features) == (256, 256)
    if name.startswith("swb300"):
        assert model.output.out_features == 32_000


def test_the_small_gpt_is_as_documented():
    task, model = made("wikitext2-gpt")
    assert (task.epochs, task.batch, task.clip) == (5, 34, 1.0)
    assert (len(model.layers), model.words.embedding_dim) == (6, 384)
