"""The models of the paper's experiments have the sizes that it gives and the right shapes."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from adamplus.lab.models import GPT, VGG19, AcousticModel, LanguageModel, ResNet18, StackedLSTM, forget


def count(build: Callable[[], nn.Module]) -> int:
    """The number of parameters, counted without allocating them."""
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
        (lambda: GPT(33_278, 256), 23_524_608),
        (lambda: AcousticModel(40 + 100 + 3 * 40, 32_000), 43_154_944),  # "over 43 million"
    ],
    ids=["resnet18", "vgg19-100", "vgg19-10", "lstm", "lstm-tied", "gpt", "acoustic"],
)
def test_models_have_the_documented_number_of_parameters(build: Callable[[], nn.Module], parameters: int):
    assert count(build) == parameters


def test_the_acoustic_model_is_as_large_as_the_paper_says():
    parameters = count(lambda: AcousticModel(260, 32_000))
    assert round(4 * parameters / 2**20) == 165


def test_vgg19_has_sixteen_convolutions_and_one_linear_layer():
    kinds = [type(module) for module in VGG19(100).modules()]
    assert (kinds.count(nn.Conv2d), kinds.count(nn.BatchNorm2d), kinds.count(nn.Linear)) == (16, 16, 1)


@pytest.mark.parametrize("build", [ResNet18, VGG19])
def test_image_models_have_an_output_per_class_and_a_gradient_for_every_parameter(build: Callable[[int], nn.Module]):
    model = build(7)
    outputs = model(torch.randn(2, 3, 32, 32))
    assert outputs.shape == (2, 7)
    outputs.square().sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_language_model_remembers_the_window_before_until_it_is_reset():
    model = LanguageModel(11, streams=3, width=8).eval()
    first, second = torch.randint(11, (2, 1, 3, 5))
    with torch.no_grad():
        together = model(torch.cat([first, second]))
        forget(model)
        alone = model(first)
        after = model(second)
        forget(model)
        anew = model(second)
    assert together.shape == (2, 3, 5, 11)
    torch.testing.assert_close(torch.cat([alone, after]), together)
    assert not torch.allclose(after, anew)
    assert not any("hidden" in name for name in model.state_dict())  # a checkpoint has no state of a text


def test_tied_weights_are_one_tensor():
    model = LanguageModel(11, width=8, tied=True)
    assert model.output.weight is model.embedding.weight


def test_an_acoustic_model_sees_later_frames_and_accepts_half_precision():
    model = AcousticModel(5, 9, layers=2, width=4, projection=3).eval()
    x = torch.randn(2, 21, 5).half()
    with torch.no_grad():
        before = model(x)
        x[:, -1] += 1
        after = model(x)
    assert before.shape == (2, 21, 9)
    assert before.dtype == torch.float32
    assert not torch.equal(before[:, 0], after[:, 0])


def test_stacked_layers_match_torch_and_continue_from_their_state():
    stacked, torchs = StackedLSTM(6, 8, layers=3, streams=2, dropout=0.0), nn.LSTM(6, 8, 3, batch_first=True)
    for i, layer in enumerate(stacked.layers):
        for name, value in layer.named_parameters():
            getattr(torchs, name.replace("_l0", f"_l{i}")).data.copy_(value.data)
    first, second = torch.randn(2, 2, 5, 6)
    outputs, memory = torchs(first)
    torch.testing.assert_close(stacked(first), outputs)
    torch.testing.assert_close(stacked(second), torchs(second, memory)[0])
    forget(stacked)
    torch.testing.assert_close(stacked(second), torchs(second)[0])


def test_dropout_between_stacked_layers_follows_torchs_seed():
    stacked, x = StackedLSTM(6, 8, layers=2, streams=2, dropout=0.5), torch.randn(2, 5, 6)

    def anew(seed: int | None = None) -> torch.Tensor:
        forget(stacked)
        if seed is not None:
            torch.manual_seed(seed)
        return stacked(x)

    assert torch.equal(anew(7), anew(7))
    assert not torch.equal(anew(7), anew())
    stacked.eval()
    assert torch.equal(anew(), anew())


def test_a_gpt_does_not_see_later_words():
    model = GPT(11, 5, width=12, layers=2, heads=3).eval()
    words = torch.randint(11, (2, 5))
    other = words.clone()
    other[:, 3] = (other[:, 3] + 1) % 11
    scores, others = model(words), model(other)
    assert scores.shape == (2, 5, 11)
    torch.testing.assert_close(scores[:, :3], others[:, :3])
    assert not torch.allclose(scores[:, 3:], others[:, 3:])


def test_a_new_gpt_is_uniform_and_has_a_gradient_for_every_parameter():
    model, words = GPT(50, 8, width=24, layers=3, heads=2), torch.randint(50, (16, 8))
    loss = nn.functional.cross_entropy(model(words).flatten(0, 1), torch.randint(50, (128,)))
    assert loss.item() == pytest.approx(math.log(50), abs=0.1)
    loss.backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())


def test_a_language_model_has_dropout_on_words_and_outputs():
    model, calls = LanguageModel(9, streams=2, width=8), []
    model.dropout.register_forward_hook(lambda *_: calls.append(1))
    model(torch.zeros(1, 2, 3, dtype=torch.long))
    assert len(calls) == 2
    for weight in (model.embedding.weight, model.output.weight):  # 72 random numbers from [-0.1, 0.1]
        assert 0.08 < float(weight.detach().abs().max()) <= 0.1


def test_a_gpt_has_dropout_on_residuals_that_are_initially_small():
    model: Any = GPT(50, 16, width=64, layers=8, heads=2, dropout=1.0)
    x = torch.randn(2, 16, 64)
    assert torch.equal(model.layers(x), x)
    assert not torch.equal(model.eval().layers(x), x)
    for layer in model.layers:
        for weight, std in ((layer.mixed, 0.005), (layer.narrow, 0.005), (layer.wide, 0.02), (layer.inputs, 0.02)):
            assert float(weight.weight.detach().std()) == pytest.approx(std, rel=0.1)


def test_the_blocks_of_a_resnet_end_in_relu():
    model = ResNet18(10)
    found: list[torch.Tensor] = []
    blocks = [module for module in model.modules() if hasattr(module, "around")]
    for block in blocks:
        block.register_forward_hook(lambda *given: found.append(given[2]))
    model(torch.randn(2, 3, 32, 32))
    assert len(found) == 8
    assert all(float(output.detach().min()) >= 0 for output in found)
