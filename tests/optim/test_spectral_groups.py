"""spectral_groups: the rules for modules, output heads, surprises, overrides and the table.

test_spectral_groups_transformers.py has the models of transformers.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from cases import through_a_file
from routings import routing, written
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp._flat_param import FlatParameter
from torch.nn.utils import parametrizations

from adamplus import SpectralPlus, spectral_groups


class Parts(nn.Module):
    """A module that consists of the given parts; one that is a tensor is a parameter."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, nn.Parameter(part) if isinstance(part, Tensor) else part)


class Conv1D(Parts):
    """The layer of transformers' GPT-2, whose weight is (d_in, d_out)."""

    def __init__(self, d_out: int, d_in: int) -> None:
        super().__init__(weight=torch.randn(d_in, d_out), bias=torch.zeros(d_out))


class TopKRouter(Parts): ...


class MoEGate(Parts): ...


class GatedUnit(Parts): ...


class Llama4TextExperts(Parts): ...


class GptOssExperts(Parts): ...


class GroupedExperts(Parts): ...


class GroupNorm32(Parts): ...


class ColumnParallelLinear(Parts): ...


class KimiLinearRMSNorm(Parts): ...


class VocabParallelEmbedding(Parts): ...


class DoraLinearLayer(Parts): ...


def attention(d_in: int, d_out: int, **attributes: Any) -> nn.Module:
    """An attention layer with packed queries, keys and values."""
    module = Parts(qkv=nn.Linear(d_in, d_out, bias=False))
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def lora(layer: nn.Module, a: nn.Module, b: nn.Module) -> nn.Module:
    """A layer with adapters, as peft makes it: the layer is frozen."""
    layer.requires_grad_(False)
    return Parts(base_layer=layer, lora_A=nn.ModuleDict({"default": a}), lora_B=nn.ModuleDict({"default": b}))


MODULES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "linear": (lambda: nn.Linear(3, 4), "sign: m.bias\nspectral: m.weight"),
    "bilinear": (lambda: nn.Bilinear(3, 4, 5), "sign: m.bias\nspectral: m.weight"),
    "convolution": (lambda: nn.Conv2d(3, 4, 3), "sign: m.bias\nspectral: m.weight"),
    "convolution of one channel": (lambda: nn.Conv1d(1, 4, 3), "sign: m.bias\nspectral: m.weight"),
    "grouped convolution": (lambda: nn.Conv3d(4, 6, 3, groups=2), "sign: m.bias\nspectral blocks=2: m.weight"),
    "depthwise convolution": (lambda: nn.Conv2d(4, 8, 3, groups=4), "sign: m.weight m.bias"),
    "transposed convolution": (
        lambda: nn.ConvTranspose2d(3, 4, 2), "sign: m.bias\nspectral transposed=True: m.weight",
    ),
    "grouped transposed convolution": (lambda: nn.ConvTranspose1d(4, 4, 2, groups=2), "sign: m.weight m.bias"),
    "depthwise transposed convolution": (lambda: nn.ConvTranspose2d(4, 4, 2, groups=4), "sign: m.weight m.bias"),
    "attention": (
        lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True),
        "sign: m.in_proj_bias m.out_proj.bias m.bias_k m.bias_v\n"
        "spectral blocks=3: m.in_proj_weight\nspectral: m.out_proj.weight",
    ),
    "attention to others": (
        lambda: nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False),
        "spectral: m.{q_proj_weight,k_proj_weight,v_proj_weight,out_proj.weight}",
    ),
    "LSTM": (
        lambda: nn.LSTM(3, 4, proj_size=2),
        "sign: m.bias_{ih,hh}_l0\nspectral blocks=4: m.weight_{ih,hh}_l0\nspectral: m.weight_hr_l0",
    ),
    "GRU": (lambda: nn.GRU(3, 4, bias=False), "spectral blocks=3: m.weight_{ih,hh}_l0"),
    "RNN": (lambda: nn.RNN(3, 4, bias=False), "spectral: m.weight_{ih,hh}_l0"),
    "LSTM cell": (lambda: nn.LSTMCell(3, 4), "sign: m.bias_{ih,hh}\nspectral blocks=4: m.weight_{ih,hh}"),
    "embedding": (lambda: nn.Embedding(5, 4), "sign: m.weight"),
    "embedding bag": (lambda: nn.EmbeddingBag(5, 4), "sign: m.weight"),
    "norm of images": (lambda: nn.LayerNorm([3, 4]), "sign: m.{weight,bias}"),
    "norm of batches": (lambda: nn.BatchNorm2d(3), "sign: m.{weight,bias}"),
    "slopes": (lambda: nn.PReLU(3), "sign: m.weight"),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(4, 2, 8),
        "sign: m.self_attn.{in_proj_bias,out_proj.bias} m.linear{1,2}.bias m.norm{1,2}.{weight,bias}\n"
        "spectral blocks=3: m.self_attn.in_proj_weight\nspectral: m.self_attn.out_proj.weight m.linear{1,2}.weight",
    ),
    "weight norm": (
        lambda: parametrizations.weight_norm(nn.Linear(3, 4)),
        "sign: m.bias m.parametrizations.weight.original0\nspectral: m.parametrizations.weight.original1",
    ),
    "spectral norm": (
        lambda: parametrizations.spectral_norm(nn.Conv2d(4, 4, 1, groups=2)),
        "sign: m.bias\nspectral blocks=2: m.parametrizations.weight.original",
    ),
    "weight norm by hooks": (
        lambda: nn.utils.weight_norm(nn.Linear(3, 4)), "sign: m.bias m.weight_g\nspectral: m.weight_v",
    ),
    "orthogonal queries, keys and values": (
        lambda: Parts(qkv=parametrizations.orthogonal(nn.Linear(3, 9))),
        "sign: m.qkv.bias\nspectral blocks=3: m.qkv.parametrizations.weight.original",
    ),
    "packed": (lambda: attention(4, 12), "spectral blocks=3: m.qkv.weight"),
    "packed, wider": (lambda: attention(4, 24, head_dim=2, num_heads=4), "spectral blocks=3: m.qkv.weight"),
    "packed, grouped queries": (
        lambda: attention(8, 16, head_dim=2, num_attention_heads=4, num_key_value_heads=2),
        "spectral blocks=(8, 4, 4): m.qkv.weight",
    ),
    "packed keys and values": (
        lambda: Parts(c_attn=Conv1D(8, 4), q_attn=Conv1D(4, 4)),
        "sign: m.{c,q}_attn.bias\nspectral transposed=True blocks=2: m.c_attn.weight\n"
        "spectral transposed=True: m.q_attn.weight",
    ),
    "packed in an unknown order": (
        lambda: Parts(query_key_value=nn.Linear(4, 12, bias=False)), "spectral: m.query_key_value.weight",
    ),
    "packed gates": (lambda: Parts(w12=nn.Linear(4, 6, bias=False)), "spectral blocks=2: m.w12.weight"),
    "linear of another package": (
        lambda: ColumnParallelLinear(weight=torch.zeros(3, 4), bias=torch.zeros(3)), "sign: m.bias\nspectral: m.weight",
    ),
    "embedding of another package": (lambda: VocabParallelEmbedding(weight=torch.zeros(3, 4)), "sign: m.weight"),
    "norm of another package": (lambda: KimiLinearRMSNorm(weight=torch.zeros(3)), "sign: m.weight"),
    "router": (lambda: TopKRouter(weight=torch.zeros(3, 4), bias=torch.zeros(3)), "sign: m.bias\nspectral: m.weight"),
    "gate of experts": (lambda: MoEGate(weight=torch.zeros(3, 4)), "spectral: m.weight"),
    "gate of one expert": (lambda: Parts(gate=nn.Linear(4, 1, bias=False)), "spectral: m.gate.weight"),
    "experts": (
        lambda: GroupedExperts(gate_up_proj=torch.zeros(2, 6, 4), down_proj=torch.zeros(2, 4, 3)),
        "spectral stacked=True blocks=2: m.gate_up_proj\nspectral stacked=True: m.down_proj",
    ),
    "transposed experts": (
        lambda: Llama4TextExperts(gate_up_proj=torch.zeros(2, 4, 6), down_proj=torch.zeros(2, 3, 4)),
        "spectral stacked=True transposed=True blocks=2: m.gate_up_proj\n"
        "spectral stacked=True transposed=True: m.down_proj",
    ),
    "experts with gates in turns": (
        lambda: GptOssExperts(
            gate_up_proj=torch.zeros(2, 4, 6), down_proj=torch.zeros(2, 3, 4), gate_up_proj_bias=torch.zeros(2, 6)
        ),
        "sign: m.gate_up_proj_bias\nspectral stacked=True transposed=True: m.{gate_up,down}_proj",
    ),
    "experts as modules": (
        lambda: Parts(experts=nn.ModuleList(nn.Linear(3, 4, bias=False) for _ in range(2))),
        "spectral: m.experts.*.weight",
    ),
    "vectors and scalars": (
        lambda: Parts(cls_token=torch.zeros(1, 1, 4), gamma=torch.zeros(4, 1, 1), logit_scale=torch.zeros(())),
        "sign: m.{cls_token,gamma,logit_scale}",
    ),
    "positions and tokens": (
        lambda: Parts(
            pos_embed=torch.zeros(1, 5, 4), rel_pos_h=torch.zeros(5, 4), register_tokens=torch.zeros(1, 2, 4),
            relative_position_bias_table=torch.zeros(9, 2), pos_bias_u=torch.zeros(2, 3), A_log=torch.zeros(4, 2),
        ),
        "sign: m.{pos_embed,rel_pos_h,register_tokens,relative_position_bias_table,pos_bias_u,A_log}",
    ),
    "lists of positions and biases": (
        lambda: Parts(
            pos_embeds=nn.ParameterList(nn.Parameter(torch.zeros(5, 4)) for _ in range(2)),
            biases=nn.ParameterDict({"a": nn.Parameter(torch.zeros(5, 4))}),
        ),
        "sign: m.pos_embeds.* m.biases.a",
    ),
    "LoRA of a linear layer": (
        lambda: lora(nn.Linear(4, 12), nn.Linear(4, 2, bias=False), nn.Linear(2, 12, bias=False)),
        "frozen: m.base_layer.{weight,bias}\nspectral: m.lora_{A,B}.default.weight",
    ),
    "LoRA of a convolution": (
        lambda: lora(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 2, 3, groups=1), nn.Conv2d(2, 4, 1, groups=2)),
        "frozen: m.base_layer.{weight,bias}\nsign: m.lora_{A,B}.default.bias\nspectral: m.lora_{A,B}.default.weight",
    ),
    "LoRA of an embedding": (
        lambda: Parts(
            lora_embedding_A=nn.ParameterDict({"default": nn.Parameter(torch.zeros(2, 9))}),
            lora_embedding_B=nn.ParameterDict({"default": nn.Parameter(torch.zeros(4, 2))}),
        ),
        "sign: m.lora_embedding_A.default\nspectral: m.lora_embedding_B.default",
    ),
    "DoRA": (
        lambda: Parts(lora_magnitude_vector=nn.ModuleDict({"default": DoraLinearLayer(weight=torch.zeros(4))})),
        "sign: m.lora_magnitude_vector.default.weight",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_each_parameter_of_a_module_is_routed(name: str):
    module, text = MODULES[name]
    assert routing(Parts(m=module()), head=()) == written(text)


HEADS: dict[str, tuple[Callable[[], nn.Module], list[str] | None]] = {
    "a layer alone": (lambda: nn.Linear(3, 4), ["weight"]),
    "a Sequential": (lambda: nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Linear(3, 4), nn.ReLU()), ["2.weight"]),
    "a body and a Sequential": (
        lambda: nn.Sequential(layers(), nn.Sequential(nn.Dropout(), nn.Linear(3, 4))), ["1.1.weight"],
    ),
    "a Sequential of blocks": (lambda: nn.Sequential(layers(), layers()), None),
    "the only layer": (lambda: Parts(embed=nn.Embedding(3, 4), n=nn.LayerNorm(4), to=nn.Linear(4, 3)), ["to.weight"]),
    "two layers": (lambda: Parts(fc1=nn.Linear(3, 4), fc2=nn.Linear(4, 3)), None),
    "a recurrent layer and another": (lambda: Parts(rnn=nn.GRU(3, 4), decoder=nn.Linear(4, 3)), None),
    "a tied layer": (lambda: tied(Parts(encoder=nn.Embedding(3, 4), rnn=nn.GRU(4, 4), decoder=nn.Linear(4, 3))), []),
    "a head": (lambda: Parts(body=layers(), head=nn.Linear(3, 4)), ["head.weight"]),
    "the first of several layers": (lambda: Parts(head=nn.Linear(3, 4), body=layers(), tail=layers()), None),
    "a convolution": (lambda: Parts(body=layers(), output=nn.Conv2d(3, 4, 1)), ["output.weight"]),
    "a first fc": (lambda: Parts(fc=nn.Linear(3, 4), conv=nn.Conv2d(3, 4, 1)), None),
    "the last of a classifier": (
        lambda: Parts(features=layers(), classifier=nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))),
        ["classifier.1.weight"],
    ),
    "the last of a head whose order is not known": (
        lambda: Parts(body=layers(), classifier=Parts(p=nn.Linear(3, 4), q=nn.Linear(4, 2))), ["classifier.q.weight"],
    ),
    "a classifier that comes first": (lambda: Parts(classifier=nn.Linear(3, 4), body=layers()), ["classifier.weight"]),
    "several heads": (
        lambda: Parts(body=layers(), class_labels_classifier=nn.Linear(3, 4), bbox_predictor=nn.Linear(3, 4)),
        ["class_labels_classifier.weight", "bbox_predictor.weight"],
    ),
    "a hidden head": (
        lambda: Parts(body=layers(), head=nn.Linear(3, 3), classifier=nn.Linear(3, 4)), ["classifier.weight"],
    ),
    "a hidden convolution": (
        lambda: Parts(body=layers(), conv_head=nn.Conv2d(3, 3, 1), classifier=nn.Linear(3, 4)), ["classifier.weight"],
    ),
    "a wrapper": (lambda: Parts(module=Parts(body=layers(), fc=nn.Linear(3, 4))), ["module.fc.weight"]),
    "a compiled model": (lambda: compiled(Parts(body=layers(), fc=nn.Linear(3, 4))), ["_orig_mod.fc.weight"]),
    "timm's": (lambda: documented("get_classifier", "fc"), ["fc.weight"]),
    "timm's, two": (lambda: documented("get_classifier", "fc", "body.b"), ["body.b.weight", "fc.weight"]),
    "timm's, none": (lambda: documented("get_classifier", "no_head"), []),
    "transformers'": (lambda: documented("get_output_embeddings", "body.b"), ["body.b.weight"]),
    "a method that is not supported": (lambda: documented("get_output_embeddings", "missing"), ["fc.weight"]),
    "a frozen head": (lambda: frozen(Parts(body=layers(), head=nn.Linear(3, 4)), "head"), []),
    "adapters alone": (lambda: frozen(Parts(a=adapted(), b=adapted()), "a.base_layer", "b.base_layer"), []),
    "a head with adapters": (lambda: Parts(body=layers(), head=adapted()), []),
    "a saved head with adapters": (
        lambda: Parts(
            body=adapted(),
            classifier=Parts(
                original_module=nn.Linear(3, 4).requires_grad_(False),
                modules_to_save=nn.ModuleDict({"default": nn.Linear(3, 4)}),
            ),
        ),
        ["classifier.modules_to_save.default.weight"],
    ),
}  # fmt: skip


def layers() -> nn.Module:
    return Parts(a=nn.Linear(3, 3, bias=False), b=nn.Linear(3, 3, bias=False))


def adapted() -> nn.Module:
    return lora(nn.Linear(3, 4), nn.Linear(3, 2), nn.Linear(2, 4))


def tied(model: Any) -> nn.Module:
    model.decoder.weight = model.encoder.weight
    return model


def compiled(model: nn.Module) -> Any:
    return torch.compile(model)


def frozen(model: nn.Module, *names: str) -> nn.Module:
    for name in names:
        model.get_submodule(name).requires_grad_(False)
    return model


def documented(method: str, *names: str) -> nn.Module:
    """A model with a method that returns its head."""
    model = Parts(body=layers(), fc=nn.Linear(3, 4), no_head=nn.Identity())
    found = lambda: [model.get_submodule(name) for name in names]  # noqa: E731
    object.__setattr__(model, method, (lambda: found()[0]) if len(names) == 1 else (lambda: tuple(found())))
    return model


@pytest.mark.parametrize("name", HEADS)
def test_output_heads_are_found_or_not_guessed(name: str):
    make, heads = HEADS[name]
    if heads is None:
        with pytest.raises(ValueError, match="the output head is not known: pass head="):
            spectral_groups(make())
    else:
        routes = spectral_groups(make()).routes
        assert [route.names[0] for route in routes if route.reason == "output head"] == heads


def test_head_names_the_output_heads():
    def heads(**arguments: Any) -> list[str]:
        model = Parts(body=Parts(fc1=nn.Linear(3, 4), fc2=nn.Linear(4, 3)), head=nn.Linear(3, 3))
        return [route.names[0] for route in spectral_groups(model, **arguments).routes if route.reason == "output head"]

    assert heads(head="body.fc2") == ["body.fc2.weight"]
    assert heads(head=["*.fc?", "head"]) == ["body.fc1.weight", "body.fc2.weight", "head.weight"]
    assert heads(head="body") == ["body.fc2.weight"]  # its last layer
    assert heads(head=()) == []


@pytest.mark.parametrize(("head", "what"), [("fc", "no module"), ("norm", "norm, without a layer")])
def test_a_head_that_is_not_there_is_refused(head: str, what: str):
    with pytest.raises(ValueError, match=rf"head='{head}' matches {what}: pass the name of a layer"):
        spectral_groups(Parts(lm=nn.Linear(3, 3), norm=nn.LayerNorm(3)), head=head)


def test_the_message_for_an_unknown_head_lists_the_last_layers_first():
    blocks = nn.ModuleList(layers() for _ in range(30))
    with pytest.raises(
        ValueError, match=r"may be one of these:\n    last.b.weight\n    last.a.weight\n    blocks.\*.b.weight"
    ):
        spectral_groups(Parts(blocks=blocks, last=layers()))
    many = Parts(**{f"a{i}": nn.Linear(2, 2) for i in range(25)})
    with pytest.raises(ValueError, match=r"a24.weight\n(.*\n)*    a5.weight\n    and 5 more$"):
        spectral_groups(many)


def partitioned(shape: tuple[int, ...]) -> nn.Parameter:
    """A parameter as DeepSpeed's zero.Init leaves it."""
    p: Any = nn.Parameter(torch.empty(0))
    p.ds_shape = torch.Size(shape)
    return p


def with_weight(module: Any, weight: Tensor, name: str = "weight") -> nn.Module:
    module._parameters[name] = weight if isinstance(weight, nn.Parameter) else nn.Parameter(weight)
    return module


def copied(**arguments: Any) -> nn.Module:
    model: Any = Parts(embed=nn.Embedding(3, 4), lm_head=nn.Linear(4, 3))
    model.lm_head.weight = nn.Parameter(model.embed.weight.detach(), **arguments)
    return model


def lazy() -> nn.Module:
    return Parts(body=nn.LazyLinear(3), head=nn.Linear(3, 3))


def used_twice() -> nn.Module:
    model: Any = Parts(body=nn.Linear(3, 3), head=nn.Linear(3, 3))
    model.head.weight = model.body.weight
    return model


SURPRISES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "unknown matrix": (
        lambda: Parts(blocks=nn.ModuleList(Parts(proj=torch.zeros(3, 4)) for _ in range(2))),
        r"no rule for some parameters:\n    blocks\.\*\.proj has shape \(3, 4\) and belongs to a Parts, and no rule "
        r"says whether it is a matrix\. Choose by overrides=\{'blocks\.\*\.proj': \{'geometry': 'spectral'\}\}[^\n]*$",
    ),
    "gated unit": (lambda: GatedUnit(weight=torch.zeros(3, 4)), r"shape \(3, 4\) and belongs to a GatedUnit"),
    "stacked linear": (lambda: ColumnParallelLinear(weight=torch.zeros(2, 3, 4)), r"belongs to a ColumnParallelLinear"),
    "experts of unknown layout": (
        lambda: GroupedExperts(w1=torch.zeros(2, 3, 4), w2=torch.zeros(2, 4, 3)), r"    w1 has shape(.|\n)*    w2 has",
    ),
    "experts of unknown gates": (
        lambda: GroupedExperts(gate_up_proj=torch.zeros(2, 3, 4), down_proj=torch.zeros(2, 4, 3)), "GroupedExperts",
    ),
    "flat experts": (
        lambda: GroupedExperts(gate_up_proj=torch.zeros(12, 4), down_proj=torch.zeros(2, 4, 3)), "GroupedExperts",
    ),
    "unknown sizes": (
        lambda: attention(4, 18),
        r"qkv\.weight has \(d_out, d_in\) = \(18, 4\)(.|\n)*'blocks': \(6, 6, 6\)\}\}, with sizes that sum to 18",
    ),
    "two uses": (
        used_twice,
        r"body\.weight is linear \(geometry='spectral'\) in body\.weight and output head \(geometry='sign'\) in "
        r"head\.weight: choose by overrides=\{'head\.weight': \{'geometry': 'sign'\}\}",
    ),
    "shard of a linear layer": (
        lambda: with_weight(nn.Linear(3, 4), torch.zeros(6)),
        r"weight has shape \(6,\), where a Linear has a matrix\. It is a flattened shard[^\n]*use FSDP2",
    ),
    "empty shard": (lambda: with_weight(nn.Conv2d(3, 4, 1), torch.zeros(0)), r"shape \(0,\), where a Conv2d has a"),
    "shard of an embedding": (lambda: with_weight(nn.Embedding(3, 4), torch.zeros(6)), "where a Embedding has a"),
    "shard of attention": (
        lambda: with_weight(nn.MultiheadAttention(4, 2), torch.zeros(6), "in_proj_weight"), "MultiheadAttention has a",
    ),
    "shard of a recurrent layer": (
        lambda: with_weight(nn.LSTM(3, 4), torch.zeros(6), "weight_ih_l0"), "where a LSTM has a matrix",
    ),
    "shard of another package": (lambda: ColumnParallelLinear(weight=torch.zeros(6)), "ColumnParallelLinear has a"),
    "shard of packed": (lambda: Parts(qkv=with_weight(nn.Linear(3, 9), torch.zeros(6))), "Linear has a matrix"),
    "shard of a router": (lambda: TopKRouter(weight=torch.zeros(6)), "TopKRouter has a matrix"),
    "shard of experts": (lambda: GptOssExperts(down_proj=torch.zeros(6)), "GptOssExperts has a matrix"),
    "shard of an adapter": (
        lambda: Parts(lora_A=nn.ModuleDict({"default": with_weight(nn.Linear(3, 2), torch.zeros(6))})), "Linear has a",
    ),
    "zero.Init": (
        lambda: with_weight(nn.Linear(3, 4), partitioned((4, 3))), "weight is partitioned by DeepSpeed's zero.Init",
    ),
    "FSDP1": (
        lambda: with_weight(Parts(), FlatParameter(torch.zeros(6)), "_flat_param"),
        "_flat_param is a flat parameter of FSDP1",
    ),
    "a broken tie": (
        copied, r"embed\.weight and lm_head\.weight are two parameters with one memory, as if a tie were broken",
    ),
    "a broken tie with a frozen copy": (lambda: copied(requires_grad=False), r"two parameters with one memory"),
    "frozen": (lambda: nn.Linear(3, 4).requires_grad_(False), "no parameter of the model requires a gradient"),
    "lazy": (lazy, r"parameters have no shape yet: run a forward pass first:\n    body\.weight\n    body\.bias$"),
    "complex": (
        lambda: nn.Linear(3, 4, dtype=torch.complex64),
        r"weight \(sign, output head\): SpectralPlus has no direction for complex",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Lazy modules")
@pytest.mark.parametrize("name", SURPRISES)
def test_surprises_raise(name: str):
    make, message = SURPRISES[name]
    with pytest.raises((ValueError, TypeError), match=message):
        spectral_groups(make(), head=() if name not in ("two uses", "complex") else None)


def test_an_override_decides_where_no_rule_does():
    model = Parts(experts=GroupedExperts(w1=torch.zeros(2, 3, 4)), proj=torch.zeros(3, 4), table=torch.zeros(3, 4))
    overrides: dict[str, Any] = {
        "experts": {"geometry": "spectral", "stacked": True},
        "proj": {"geometry": "spectral", "transposed": True},
        "tab*": {"geometry": "sign", "scale": 0.1},
    }
    assert routing(model, overrides=overrides) == written(
        "spectral stacked=True: experts.w1\nspectral transposed=True: proj\nsign scale=0.1: table"
    )
    with pytest.raises(ValueError, match="no rule says whether it is a matrix"):
        spectral_groups(model, overrides={"*": {"lr": 0.1}})


def test_overrides_are_added_to_the_rules():
    model = Parts(
        embed=nn.Embedding(3, 4),
        attn=Parts(c_attn=Conv1D(12, 4)),
        conv=nn.Conv2d(3, 4, 1, groups=1),
        lm_head=Conv1D(3, 4),
    )
    overrides: dict[str, Any] = {
        "attn": {"lr": 0.1},
        "*.c_attn.weight": {"geometry": "spectral", "beta": 0.3},  # keeps how the matrices are stored
        "embed": {"scale": 0.06},
        "lm_head.weight": {"geometry": "spectral"},  # as if it were no head
        "conv.*": {"geometry": "sign"},
    }
    assert routing(model, overrides=overrides) == written("""
        sign scale=0.06: embed.weight
        spectral transposed=True blocks=3 lr=0.1 beta=0.3: attn.c_attn.weight
        sign lr=0.1: attn.c_attn.bias
        sign: conv.weight conv.bias lm_head.bias
        spectral transposed=True: lm_head.weight
    """)


def test_overrides_may_name_either_side_of_a_tie():
    model: Any = Parts(embed=nn.Embedding(3, 4), lm_head=nn.Linear(4, 3, bias=False))
    model.lm_head.weight = model.embed.weight
    for name in ("embed", "lm_head.weight", "*"):
        assert routing(model, overrides={name: {"lr": 0.1}}) == {"embed.weight=lm_head.weight": "sign lr=0.1"}


def test_settings_of_a_geometry_are_those_of_all_its_groups():
    model = Parts(body=Parts(c_attn=Conv1D(12, 4)), head=nn.Linear(3, 4))
    spectral, sign = {"weight_decay": 0.3, "transposed": False}, {"scale": 0.02, "weight_decay": 0.1}
    groups = spectral_groups(model, spectral=spectral, sign=sign)
    settings = [{k: v for k, v in group.items() if k not in ("params", "param_names")} for group in groups]
    assert settings == [
        {"geometry": "spectral", "weight_decay": 0.3, "transposed": True, "blocks": 3},  # the rule knows better
        {"geometry": "sign", "weight_decay": 0.1, "scale": 0.02},
    ]
    optimizer = SpectralPlus(spectral_groups(model), lr=0.1, weight_decay=0.2)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.2, 0.0]


WRONG: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "no match": (ValueError, r"overrides\['heads'\] matches no parameter", {"overrides": {"heads": {}}}),
    "part of a name": (ValueError, r"overrides\['hea'\] matches no parameter", {"overrides": {"hea": {}}}),
    "unknown setting": (
        ValueError, r"overrides\['head'\] has the unknown setting geometri: groups may have lr, beta",
        {"overrides": {"head": {"geometri": "sign"}}},
    ),
    "execution": (ValueError, "sign has the unknown setting fused", {"sign": {"fused": True}}),
    "unknown geometry": (
        ValueError, r"geometry in overrides\['head'\] must be one of 'spectral', 'sign', got 'euclid'",
        {"overrides": {"head": {"geometry": "euclid"}}},
    ),
    "geometry of a geometry": (
        ValueError, "sign= has settings for that geometry: choose geometries by", {"sign": {"geometry": "sign"}},
    ),
    "no settings": (TypeError, "spectral must be a dict of settings, got 0.1", {"spectral": 0.1}),
    "no settings of a name": (TypeError, r"overrides\['head'\] must be a dict", {"overrides": {"head": "sign"}}),
    "disagreement": (
        ValueError,
        r"overrides\['head'\] and overrides\['\*\.weight'\] both match head\.weight, and give it lr=0\.1 and lr=0\.2",
        {"overrides": {"head": {"lr": 0.1, "beta": 0.5}, "*.weight": {"lr": 0.2, "beta": 0.5}}},
    ),
    "matrix of a vector": (
        ValueError, r"head\.bias \(spectral, override\): the spectral geometry needs matrices, got shape \(4,\)",
        {"overrides": {"head": {"geometry": "spectral"}}},
    ),
    "blocks that do not divide": (
        ValueError, r"body\.a\.weight \(spectral, linear\): blocks=2 does not", {"overrides": {"body": {"blocks": 2}}},
    ),
    "blocks of signs": (
        ValueError, r"overrides has blocks for head\.weight, whose geometry is 'sign' \(output head\)",
        {"overrides": {"head": {"blocks": 2}}},
    ),
    "type of a setting": (
        TypeError, r"body\.a\.weight \(spectral, linear\): blocks must be", {"overrides": {"body": {"blocks": "2"}}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused(name: str):
    error, message, arguments = WRONG[name]
    with pytest.raises(error, match=message):
        spectral_groups(Parts(body=layers(), head=nn.Linear(3, 4)), **arguments)


TABLE = """\
parameter                            shape          tensors  geometry  reason           settings
scale                                scalar               1  sign      vector           weight_decay=0.0
embed.weight = lm_head.weight        9 × 4                1  sign      embedding, tied  weight_decay=0.0
blocks.{0-1,3}.conv.weight           4 × 2 × 1 × 1        3  spectral  convolution
blocks.0.experts.0.a.weight          3 × 3                1  spectral  linear           lr=0.1
blocks.{0-3}.experts.{0-1}.b.weight  3 × 3                8  spectral  linear
blocks.0.experts.1.a.weight          3 × 3                1  spectral  linear
blocks.1.experts.{0-1}.a.weight      3 × 3                2  spectral  linear
blocks.2.experts.{0-1}.a.weight      3 × 3                2  spectral  linear
blocks.3.experts.{0-1}.a.weight      3 × 3                2  spectral  linear
blocks.2.conv.weight                 5 × 2 × 1 × 1        1  spectral  convolution
blocks.4.conv.weight                 4 × 2 × 1 × 1        1  frozen
blocks.4.experts.{0-1}.a.weight      3 × 3                2  frozen
blocks.4.experts.{0-1}.b.weight      3 × 3                2  frozen
lm_head.bias                         9                    1  sign      bias             weight_decay=0.0
spectral: 178 elements in 20 tensors
sign: 46 elements in 3 tensors
frozen: 44 elements in 5 tensors"""


def test_the_table_shows_every_parameter_and_merges_layers():
    block = Parts(conv=nn.Conv2d(2, 4, 1, bias=False), experts=nn.ModuleList(layers() for _ in range(2)))
    blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(5))
    blocks[2].conv = nn.Conv2d(2, 5, 1, bias=False)
    model: Any = Parts(embed=nn.Embedding(9, 4), scale=torch.zeros(()), blocks=blocks, lm_head=nn.Linear(4, 9))
    model.lm_head.weight = model.embed.weight
    blocks[4].requires_grad_(False)
    groups = spectral_groups(model, overrides={"blocks.0.experts.0.a": {"lr": 0.1}})
    assert repr(groups) == str(groups)
    assert str(groups) == TABLE
    assert str(spectral_groups(nn.Linear(3, 4, bias=False))).endswith("\nsign: 12 elements in 1 tensor")


def trained(packed: bool, transposed: bool) -> list[Tensor]:
    """Queries, keys and values after some steps, if they are packed into one layer or not."""
    torch.manual_seed(0)
    weights, x, target = torch.randn(3, 4, 4), torch.randn(8, 4), torch.randn(8, 12)
    if packed:
        layer: Any = Conv1D(12, 4) if transposed else nn.Linear(4, 12)
        layer.weight = nn.Parameter(weights.flatten(0, 1).T.clone() if transposed else weights.flatten(0, 1))
        model: Any = Parts(c_attn=layer)
    else:
        model = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        for part, weight in zip(model, weights, strict=True):
            part.weight = nn.Parameter(weight.clone())
    optimizer = SpectralPlus(spectral_groups(model, head=()), lr=0.1)

    def matrix() -> Tensor:
        if not packed:
            return torch.cat([part.weight for part in model])
        return model.c_attn.weight.T if transposed else model.c_attn.weight

    for _ in range(4):
        optimizer.zero_grad()
        (x @ matrix().T - target).square().mean().backward()
        optimizer.step()
    return list(matrix().detach().split(4))


@pytest.mark.parametrize("transposed", [False, True])
def test_packed_layers_take_the_steps_of_the_layers_that_they_pack(transposed: bool):
    for a, b in zip(trained(True, transposed), trained(False, False), strict=True):
        assert torch.allclose(a, b, atol=1e-5, rtol=0)  # 4 steps in float32, by products of another order


def small(**overrides: Any) -> tuple[nn.Module, SpectralPlus]:
    torch.manual_seed(0)
    model = nn.Sequential()
    model.embed, model.a, model.b, model.head = nn.Embedding(7, 6), nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
    return model, SpectralPlus(spectral_groups(model, overrides=overrides), lr=0.02)


def step(model: nn.Module, optimizer: SpectralPlus, times: int = 3) -> None:
    for _ in range(times):
        optimizer.zero_grad()
        model(torch.arange(7)).square().sum().backward()
        optimizer.step()


def names(optimizer: SpectralPlus) -> list[list[str]]:
    return [group["param_names"] for group in optimizer.param_groups]


def test_a_state_dict_has_names_and_continues_in_another_optimizer():
    (model, optimizer), (twin, other) = small(), small()
    step(model, optimizer)
    state = through_a_file({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    assert state["optimizer"]["param_groups"][1]["param_names"] == ["a.weight", "b.weight"]
    twin.load_state_dict(state["model"])
    other.load_state_dict(state["optimizer"])
    step(model, optimizer)
    step(twin, other)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), twin.parameters(), strict=True))


def test_parameters_that_are_added_later_need_names():
    _, optimizer = small()
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2, 2))]})
    optimizer.add_param_group({"params": [("late", nn.Parameter(torch.zeros(2, 2)))]})
    assert names(optimizer)[-1] == ["late"]


def test_dtensors_are_routed_by_their_whole_shape():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = dist.init_device_mesh("cpu", (1,))
        model: Any = Parts(body=Parts(qkv=nn.Linear(4, 12)), conv=nn.Conv2d(2, 3, 2), head=nn.Linear(4, 3))
        plain = routing(model)
        for part in (model.body.qkv, model.conv, model.head):
            fully_shard(part, mesh=mesh)
        assert type(model.body.qkv.weight).__name__ == "DTensor"
        assert routing(model) == plain
        assert plain == written("""
            sign: body.qkv.bias conv.bias head.{weight,bias}
            spectral blocks=3: body.qkv.weight
            spectral: conv.weight
        """)
    finally:
        dist.destroy_process_group()


def test_parameters_on_the_meta_device_are_no_broken_tie():
    with torch.device("meta"):
        model = Parts(body=layers(), head=nn.Linear(3, 4))
    assert len(spectral_groups(model).routes) == 4
