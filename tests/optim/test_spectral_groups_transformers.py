"""spectral_groups routes each parameter of models from transformers as written here."""

from typing import Any

import pytest
import torch
import transformers
from routings import routing, written
from torch import nn

from adamplus import SpectralPlus, spectral_groups

TOKENS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
SIZES: dict[str, Any] = {
    "num_hidden_layers": 2, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "vocab_size": 19,
    **TOKENS,
}  # fmt: skip
LLAMA: dict[str, Any] = {**SIZES, "num_key_value_heads": 2, "head_dim": 4}

GPT2 = """
    sign: transformer.{wte.weight=lm_head,wpe}.weight
    sign: transformer.h.*.ln_{1,2}.{weight,bias} transformer.ln_f.{weight,bias}
    sign: transformer.h.*.{attn.c_attn,attn.c_proj,mlp.c_fc,mlp.c_proj}.bias
    spectral transposed=True blocks=3: transformer.h.*.attn.c_attn.weight
    spectral transposed=True: transformer.h.*.{attn.c_proj,mlp.c_fc,mlp.c_proj}.weight
"""
DECODER = """
    sign: model.embed_tokens.weight lm_head.weight model.norm.weight
    sign: model.layers.*.{input,post_attention}_layernorm.weight
    spectral: model.layers.*.self_attn.{q,k,v,o}_proj.weight
"""
ENCODER = """
    sign: bert.embeddings.{position,token_type}_embeddings.weight bert.embeddings.LayerNorm.{weight,bias}
    sign: bert.encoder.layer.*.attention.self.{query,key,value}.bias
    sign: bert.encoder.layer.*.{attention.output,intermediate,output}.dense.bias
    sign: bert.encoder.layer.*.{attention.output,output}.LayerNorm.{weight,bias}
    spectral: bert.encoder.layer.*.attention.self.{query,key,value}.weight
    spectral: bert.encoder.layer.*.{attention.output,intermediate,output}.dense.weight
"""
MODELS: dict[str, tuple[str, str, dict[str, Any], str]] = {  # class, class of its config, config, routing
    "GPT-2": (
        "GPT2LMHeadModel", "GPT2Config",
        {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 8, "vocab_size": 19, **TOKENS},
        GPT2,
    ),
    "Llama": (
        "LlamaForCausalLM", "LlamaConfig", LLAMA,
        DECODER + "spectral: model.layers.*.mlp.{gate,up,down}_proj.weight",
    ),
    "Llama, tied": (
        "LlamaForCausalLM", "LlamaConfig", {**LLAMA, "tie_word_embeddings": True},
        DECODER.replace("model.embed_tokens.weight lm_head.weight", "model.embed_tokens.weight=lm_head.weight")
        + "spectral: model.layers.*.mlp.{gate,up,down}_proj.weight",
    ),
    "Llama without a head": (
        "LlamaModel", "LlamaConfig", LLAMA,
        (DECODER + "spectral: model.layers.*.mlp.{gate,up,down}_proj.weight").replace("model.", "")
        .replace("lm_head.weight", ""),
    ),
    "Phi-3, packed": (
        "Phi3ForCausalLM", "Phi3Config", LLAMA,
        DECODER.replace("{q,k,v,o}", "o") + """
            spectral: model.layers.*.mlp.down_proj.weight
            spectral blocks=(16, 8, 8): model.layers.*.self_attn.qkv_proj.weight
            spectral blocks=2: model.layers.*.mlp.gate_up_proj.weight
        """,
    ),
    "Mixtral": (
        "MixtralForCausalLM", "MixtralConfig", {**LLAMA, "num_local_experts": 3},
        DECODER + """
            spectral: model.layers.*.mlp.gate.weight
            spectral stacked=True blocks=2: model.layers.*.mlp.experts.gate_up_proj
            spectral stacked=True: model.layers.*.mlp.experts.down_proj
        """,
    ),
    "Qwen2-MoE": (
        "Qwen2MoeForCausalLM", "Qwen2MoeConfig",
        {**LLAMA, "num_experts": 3, "moe_intermediate_size": 8, "shared_expert_intermediate_size": 8},
        DECODER + """
            sign: model.layers.*.self_attn.{q,k,v}_proj.bias
            spectral: model.layers.*.mlp.{gate,shared_expert_gate}.weight
            spectral: model.layers.*.mlp.shared_expert.{gate,up,down}_proj.weight
            spectral stacked=True blocks=2: model.layers.*.mlp.experts.gate_up_proj
            spectral stacked=True: model.layers.*.mlp.experts.down_proj
        """,
    ),
    "GPT-OSS": (
        "GptOssForCausalLM", "GptOssConfig", {**LLAMA, "num_local_experts": 3, "num_experts_per_tok": 2},
        DECODER + """
            sign: model.layers.*.self_attn.{sinks,q_proj.bias,k_proj.bias,v_proj.bias,o_proj.bias}
            sign: model.layers.*.mlp.{router.bias,experts.gate_up_proj_bias,experts.down_proj_bias}
            spectral: model.layers.*.mlp.router.weight
            spectral stacked=True transposed=True: model.layers.*.mlp.experts.{gate_up,down}_proj
        """,
    ),
    "BERT, masked words": (
        "BertForMaskedLM", "BertConfig", SIZES,
        ENCODER + """
            sign: bert.embeddings.word_embeddings.weight=cls.predictions.decoder.weight
            sign: cls.predictions.bias=cls.predictions.decoder.bias
            sign: cls.predictions.transform.{dense.bias,LayerNorm.weight,LayerNorm.bias}
            spectral: cls.predictions.transform.dense.weight
        """,
    ),
    "BERT, classes": (
        "BertForSequenceClassification", "BertConfig", SIZES,
        ENCODER + """
            sign: bert.embeddings.word_embeddings.weight bert.pooler.dense.bias classifier.{weight,bias}
            spectral: bert.pooler.dense.weight
        """,
    ),
    "BERT without a head": (
        "BertModel", "BertConfig", SIZES,
        (ENCODER + """
            sign: bert.embeddings.word_embeddings.weight bert.pooler.dense.bias
            spectral: bert.pooler.dense.weight
        """).replace("bert.", ""),
    ),
    "ViT": (
        "ViTForImageClassification", "ViTConfig", {**SIZES, "image_size": 8, "patch_size": 4},
        """
            sign: vit.embeddings.{cls_token,position_embeddings,patch_embeddings.projection.bias}
            sign: vit.layernorm.{weight,bias} vit.layers.*.layernorm_{before,after}.{weight,bias}
            sign: vit.layers.*.attention.{q,k,v,o}_proj.bias
            sign: vit.layers.*.mlp.fc{1,2}.bias
            sign: classifier.{weight,bias}
            spectral: vit.embeddings.patch_embeddings.projection.weight
            spectral: vit.layers.*.attention.{q,k,v,o}_proj.weight vit.layers.*.mlp.fc{1,2}.weight
        """,
    ),
    "T5": (
        "T5ForConditionalGeneration", "T5Config",
        {"vocab_size": 19, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4},
        """
            sign: shared.weight=encoder.embed_tokens.weight=decoder.embed_tokens.weight=lm_head.weight
            sign: {encoder,decoder}.block.*.layer.0.SelfAttention.relative_attention_bias.weight
            sign: {encoder,decoder}.final_layer_norm.weight
            sign: encoder.block.*.layer.{0,1}.layer_norm.weight decoder.block.*.layer.{0,1,2}.layer_norm.weight
            spectral: {encoder,decoder}.block.*.layer.0.SelfAttention.{q,k,v,o}.weight
            spectral: decoder.block.*.layer.1.EncDecAttention.{q,k,v,o}.weight
            spectral: {encoder.block.*.layer.1,decoder.block.*.layer.2}.DenseReluDense.{wi,wo}.weight
        """,
    ),
    "ConvNeXt": (
        "ConvNextForImageClassification", "ConvNextConfig",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
        """
            sign: convnext.embeddings.{patch_embeddings.bias,layernorm.weight,layernorm.bias}
            sign: convnext.encoder.stages.*.layers.0.{layer_scale_parameter,dwconv.weight,dwconv.bias}
            sign: convnext.encoder.stages.*.layers.0.{layernorm.weight,layernorm.bias,pwconv1.bias,pwconv2.bias}
            sign: convnext.encoder.stages.*.downsampling_layer.{0.weight,0.bias,1.bias}
            sign: convnext.layernorm.{weight,bias} classifier.{weight,bias}
            spectral: convnext.embeddings.patch_embeddings.weight convnext.encoder.stages.*.downsampling_layer.1.weight
            spectral: convnext.encoder.stages.*.layers.0.pwconv{1,2}.weight
        """,
    ),
    "XLM-RoBERTa, whose head comes first": (
        "XLMRobertaForSequenceClassification", "XLMRobertaConfig", SIZES,
        ENCODER.replace("bert.", "roberta.") + """
            sign: roberta.embeddings.word_embeddings.weight classifier.out_proj.{weight,bias} classifier.dense.bias
            spectral: classifier.dense.weight
        """,
    ),
    "DistilBERT, with a layer before its head": (
        "DistilBertForSequenceClassification", "DistilBertConfig",
        {"vocab_size": 19, "dim": 16, "hidden_dim": 24, "n_layers": 2, "n_heads": 2, "pad_token_id": 0},
        """
            sign: distilbert.embeddings.{word,position}_embeddings.weight distilbert.embeddings.LayerNorm.{weight,bias}
            sign: distilbert.transformer.layer.*.attention.{q,k,v,out}_lin.bias
            sign: distilbert.transformer.layer.*.{ffn.lin1,ffn.lin2,sa_layer_norm,output_layer_norm}.bias
            sign: distilbert.transformer.layer.*.{sa_layer_norm,output_layer_norm}.weight
            sign: pre_classifier.bias classifier.{weight,bias}
            spectral: distilbert.transformer.layer.*.attention.{q,k,v,out}_lin.weight
            spectral: distilbert.transformer.layer.*.ffn.lin{1,2}.weight pre_classifier.weight
        """,
    ),
}  # fmt: skip


def made(name: str) -> nn.Module:
    model, config, sizes, _ = MODELS[name]
    return getattr(transformers, model)(getattr(transformers, config)(**sizes))


@pytest.mark.parametrize("name", MODELS)
def test_each_parameter_of_a_model_is_routed(name: str):
    assert routing(made(name)) == written(MODELS[name][3])


def test_heads_below_a_model_without_a_head_are_not_known():
    """Its class is a model for a task, and its only child documents that it has no head."""
    with torch.device("meta"):
        model = transformers.RTDetrForObjectDetection(transformers.RTDetrConfig(encoder_layers=1, decoder_layers=1))
    with pytest.raises(ValueError, match="the output head is not known"):
        spectral_groups(model)
    groups = spectral_groups(model, head=("*.class_embed", "*.bbox_embed", "*_score_head", "*_bbox_head"))
    assert {r.names[0] for r in groups.routes if r.reason == "output head"} >= {"model.enc_score_head.weight"}


@pytest.mark.parametrize("name", ["GPT-2", "Mixtral", "GPT-OSS"])
def test_a_language_model_is_trained_with_its_groups(name: str):
    model = made(name)
    optimizer = SpectralPlus(spectral_groups(model), lr=0.2)
    optimizer.follow(model)
    words = torch.arange(8)[None] % 19
    before = [p.detach().clone() for p in model.parameters()]
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert not any(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
