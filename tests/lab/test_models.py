"""The models of the paper's experiments: as large as it says, and of the right shapes."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from adamplus.lab.models import VGG19, AcousticModel, LanguageModel, ResNet18


def count(build: Callable[[], nn.Module]) -> int:
    """Parameters, without the memory for them."""
    with torch.device("meta"):
        return sum(p.numel() for p in build().parameters())


@pytest.mark.parametrize(
    ("build", "parameters"),
    [
        (lambda: ResNet18(10), 11_173_962),  # the paper's figure for CIFAR-10: 11.17 M
        (lambda: VGG19(100), 20_081_188),
        (lambda: VGG19(10), 20_035_018),  # 20,040,522 less the biases before BatchNorm
        (lambda: LanguageModel(33_278), 50_065_078),
        (lambda: LanguageModel(33_278, tied=True), 28_434_378),
        (lambda: AcousticModel(40 + 100 + 3 * 40, 32_000), 43_154_944),  # "over 43 million"
    ],
    ids=["resnet18", "vgg19-100", "vgg19-10", "lstm", "lstm-tied", "acoustic"],
)
def test_models_have_the_parameters_that_are_claimed(build: Callable[[], nn.Module], parameters: int):
    assert count(build) == parameters


def test_the_acoustic_model_is_as_large_as_the_paper_says():
    parameters = count(lambda: AcousticModel(260, 32_000))
    assert round(4 * parameters / 2**20) == 165


def test_vgg19_has_sixteen_convolutions_and_one_linear_layer():
    kinds = [type(module) for module in VGG19(100).modules()]
    assert (kinds.count(nn.Conv2d), kinds.count(nn.BatchNorm2d), kinds.count(nn.Linear)) == (16, 16, 1)


@pytest.mark.parametrize("build", [ResNet18, VGG19])
def test_image_models_score_every_class_and_learn_in_every_parameter(build: Callable[[int], nn.Module]):
    model = build(7)
    outputs = model(torch.randn(2, 3, 32, 32))
    assert outputs.shape == (2, 7)
    outputs.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_language_model_remembers_the_window_before_and_forgets_when_told():
    model = LanguageModel(11, streams=3, width=8).eval()
    first, second = torch.randint(11, (2, 1, 3, 5))
    with torch.no_grad():
        together = model(torch.cat([first, second]))
        model.forget()
        alone = model(first)
        after = model(second)
        model.forget()
        anew = model(second)
    assert together.shape == (2, 3, 5, 11)
    torch.testing.assert_close(torch.cat([alone, after]), together)
    assert not torch.allclose(after, anew)
    assert "hidden" not in model.state_dict()  # every pass begins a new text


def test_tied_weights_are_one_tensor():
    model = LanguageModel(11, width=8, tied=True)
    assert model.output.weight is model.embedding.weight


def test_an_acoustic_model_hears_the_frames_after_and_takes_half_precision():
    model = AcousticModel(5, 9, layers=2, width=4, projection=3).eval()
    x = torch.randn(2, 21, 5).half()
    with torch.no_grad():
        before = model(x)
        x[:, -1] += 1
        after = model(x)
    assert before.shape == (2, 21, 9)
    assert before.dtype == torch.float32
    assert not torch.equal(before[:, 0], after[:, 0])
