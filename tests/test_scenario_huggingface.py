"""The fields of a config.json give the shape of a model, and what it cannot say is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightloom import huggingface_keys, presets
from lightloom.cli import run
from lightloom.errors import InputError
from lightloom.huggingface import read_config
from lightloom.huggingface_defaults import DEFAULTS
from lightloom.resolve import load_job

MODELS = Path(__file__).parent / "data/models"
MIXTRAL = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "model_type": "mixtral",
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "rope_theta": 1000000.0,
    "torch_dtype": "bfloat16",
    "vocab_size": 32000,
}
QWEN2 = {
    "decoder_sparse_step": 1,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "model_type": "qwen2_moe",
    "moe_intermediate_size": 1408,
    "num_attention_heads": 16,
    "num_experts": 60,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 24,
    "num_key_value_heads": 16,
    "shared_expert_intermediate_size": 5632,
    "vocab_size": 151936,
}
QWEN3 = {
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "mlp_only_layers": [],
    "model_type": "qwen3_moe",
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "vocab_size": 151936,
}
DEEPSEEK_V3 = {
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "model_type": "deepseek_v3",
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
}
# Of no family that is listed: it says all that families differ in.
OWN = {
    **MIXTRAL, "model_type": "own", "head_dim": 128, "hidden_act": "silu", "attention_bias": False,
    "tie_word_embeddings": False,
}  # fmt: skip
ALL = [MIXTRAL, QWEN2, QWEN3, DEEPSEEK_V3, OWN]


def read(tmp_path: Path, config: dict[str, Any]) -> dict[str, Any]:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return read_config(path)


def preset(model: str, **changes: Any) -> dict[str, Any]:
    return dict(presets.load("models", model).values["model"]) | changes


def test_configs_give_the_presets(tmp_path: Path) -> None:
    assert read(tmp_path, MIXTRAL) == preset("mixtral-8x7b", name="mixtral")
    assert read(tmp_path, DEEPSEEK_V3) == preset("deepseek-v3", name="deepseek_v3")
    # MixNet counts 64 experts where the published model has 60.
    assert read(tmp_path, QWEN2) == preset("qwen-moe", name="qwen2_moe", experts=60)


def test_qwen3_has_its_own_head_width_and_no_shared_expert(tmp_path: Path) -> None:
    model = read(tmp_path, QWEN3)
    assert model["attention"] == {"kind": "gqa", "heads": 32, "kv_heads": 4, "head_dim": 128}
    assert (model["shared_experts"], model["shared_intermediate"]) == (0, 0)
    dense = read(tmp_path, QWEN3 | {"mlp_only_layers": [0, 1]})
    assert (dense["dense_layers"], dense["dense_intermediate"]) == (2, 6144)


def test_deepseek_v2_lite_has_plain_queries_and_two_shared_experts(tmp_path: Path) -> None:
    lite = {"model_type": "deepseek_v2", "q_lora_rank": None, "n_shared_experts": 2}
    model = read(tmp_path, DEEPSEEK_V3 | lite)
    assert model["attention"]["q_lora_rank"] == 0
    assert (model["shared_experts"], model["shared_intermediate"]) == (2, 2048)


def test_a_config_is_a_job(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MIXTRAL | {"_name_or_path": "mistralai/Mixtral-8x7B-v0.1"}))
    job = load_job(str(path), {"parallelism.ep": 8, "fabric.kind": "mixnet"})
    assert job.scenario.model.name == "Mixtral-8x7B-v0.1"
    assert job.origins["model.hidden"].layer == str(path)


@pytest.mark.parametrize(
    ("config", "change", "says"),
    [
        (MIXTRAL, {"model_type": "own"}, 'hidden_act: missing, and of model_type = "own" no'),
        (OWN, {"model_type": ..., "hidden_act": ...}, "hidden_act: missing, and without a model_t"),
        (OWN, {"num_local_experts": ...}, "num_local_experts: missing, though num_experts_per_tok"),
        (
            OWN,
            {"num_local_experts": -8},
            "num_local_experts = -8: must be a whole number",
        ),
        (
            OWN,
            {"num_local_experts": 0},
            "num_experts_per_tok = 2: must be at most num_local",
        ),
        (
            OWN,
            {"num_experts_per_tok": -2},
            "num_experts_per_tok = -2: must be a whole number",
        ),
        (
            OWN,
            {"experts_per_token": 4},
            "contradicts num_experts_per_tok = 2; allowed",
        ),
        (OWN, {"num_key_value_heads": "8"}, 'num_key_value_heads = "8": must be a whole number'),
        (OWN, {"head_dim": 0}, "head_dim = 0: must be a whole number, at least 1"),
        (OWN, {"qkv_bias": "yes"}, 'qkv_bias = "yes": must be true or false'),
        (
            OWN,
            {"interleave_moe_layer_step": 4, "moe_layers": list(range(0, 32, 2))},
            "contradicts interleave_moe_layer_step = 4; allowed: one of the two",
        ),
        (OWN, {"moe_layers": [32]}, "moe_layers = [32]: must be a list of layers, 0 to 31"),
        (
            OWN,
            {"moe_layers": []},
            "moe_layers = []: no layer of num_hidden_layers = 32 has",
        ),
        (OWN, {"tie_word_embeddings": ...}, "tie_word_embeddings: missing, and of model_type"),
        (OWN, {"hidden_act": "relu2"}, 'hidden_act = "relu2": does not say a network of three'),
        (OWN, {"mamba_d_state": 16}, "mamba_d_state = 16: not supported"),
        (OWN, {"layer_types": ["linear_attention"]}, "layer_types"),
        (OWN, {"attention_bias": 1}, "attention_bias = 1: must be true or false"),
        (MIXTRAL, {"num_experts": 16}, "num_experts = 16: contradicts num_local_experts = 8"),
        (MIXTRAL, {"num_experts_per_tok": 9}, "must be at most num_local_experts = 8"),
        (MIXTRAL, {"num_experts_per_tok": None}, "num_experts_per_tok: missing"),
        (MIXTRAL, {"num_key_value_heads": 5}, "must divide num_attention_heads = 32"),
        (MIXTRAL, {"num_local_experts": ...}, "missing, though num_experts_per_tok = 2 is there"),
        (QWEN3, {"num_shared_experts": 1, "n_shared_experts": 2}, "contradicts n_shared_experts"),
        (DEEPSEEK_V3, {"expert_intermediate_size": 1}, "contradicts moe_intermediate_size = 2048"),
        (MIXTRAL, {"text_config": []}, "text_config = []: must be a JSON object"),
        (MIXTRAL, {"text_config": {"model_type": "llama4_text"}}, "text_config.num_hidden_layers"),
        (MIXTRAL, {"model_type": ""}, 'model_type = "": must be the family'),
        (MIXTRAL, {"model_type": 7}, "model_type = 7: must be the family's name, or absent"),
        (MIXTRAL, {"hidden_size": None}, "hidden_size: missing"),
        (MIXTRAL, {"hidden_size": "4096"}, 'hidden_size = "4096": must be a whole number'),
        (MIXTRAL, {"hidden_size": True}, "hidden_size = true: must be a whole number"),
        (MIXTRAL, {"num_attention_heads": 33}, "must divide hidden_size = 4096"),
        (QWEN2, {"decoder_sparse_step": 0}, "decoder_sparse_step = 0: no layer would have"),
        (QWEN2, {"decoder_sparse_step": 25}, "decoder_sparse_step = 25: no layer of num_hidden"),
        (QWEN2, {"n_shared_experts": 2}, "contradicts n_shared_experts = 2"),
        (QWEN3, {"mlp_only_layers": [-1]}, "mlp_only_layers = [-1]: must be a list of layers"),
        (DEEPSEEK_V3, {"moe_layers": [1, 2, 5]}, "contradicts first_k_dense_replace = 3"),
        (DEEPSEEK_V3, {"moe_layer_freq": "2"}, 'moe_layer_freq = "2": must be a whole number'),
        (DEEPSEEK_V3, {"attention_bias": True}, "attention_bias = true: not supported with kv"),
        (QWEN3, {"mlp_only_layers": [5]}, "mlp_only_layers = [5]: not supported"),
        (DEEPSEEK_V3, {"kv_lora_rank": 0}, "kv_lora_rank = 0: must be a whole number, at least 1"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, config: dict[str, Any], change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError) as error:
        changed = config | change
        read(tmp_path, {key: value for key, value in changed.items() if value is not ...})
    assert str(error.value).startswith(f"{tmp_path}/config.json: ") and says in str(error.value)


@given(st.data())
def test_any_value_in_any_place(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    config = dict(data.draw(st.sampled_from(ALL)))
    key = data.draw(st.sampled_from(sorted(config)))
    value = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([{}])
    config[key] = data.draw(value)
    try:
        read(tmp_path_factory.getbasetemp(), config)
    except InputError as error:
        assert "\n" not in str(error)


def test_a_family_that_is_not_listed_is_read_by_its_fields(tmp_path: Path) -> None:
    assert read(tmp_path, OWN) == preset("mixtral-8x7b", name="own")
    tied = read(tmp_path, OWN | {"tie_word_embeddings": True, "attention_bias": True})
    assert tied["tied_embeddings"] is True and tied["attention"]["bias"] == "qkvo"
    assert read(tmp_path, OWN | {"head_dim": None})["attention"]["head_dim"] == 128
    # An absent key of a listed family has that family's default, and null is none.
    few = {key: value for key, value in MIXTRAL.items() if key != "num_key_value_heads"}
    assert read(tmp_path, few)["attention"]["kv_heads"] == 8
    assert read(tmp_path, few | {"num_key_value_heads": None})["attention"]["kv_heads"] == 32


@pytest.mark.parametrize(
    ("config", "change", "first", "step"),
    [
        (QWEN3, {"decoder_sparse_step": 2}, 1, 2),
        (QWEN3, {"decoder_sparse_step": 3, "mlp_only_layers": [2]}, 5, 3),
        (QWEN3, {"mlp_only_layers": [1, 0]}, 2, 1),
        (DEEPSEEK_V3, {"moe_layer_freq": 2}, 4, 2),
        (OWN, {"interleave_moe_layer_step": 4}, 3, 4),
        (OWN, {"moe_layers": list(range(0, 32, 2))}, 0, 2),
        (OWN, {"interleave_moe_layer_step": 2, "moe_layers": list(range(1, 32, 2))}, 1, 2),
        (OWN, {"first_k_dense_replace": 5}, 5, 1),
        (OWN, {"moe_layers": [31]}, 31, 1),
    ],
)
def test_layers_with_experts(
    tmp_path: Path, config: dict[str, Any], change: dict[str, Any], first: int, step: int
) -> None:
    model = read(tmp_path, config | change)
    assert (model["dense_layers"], model.get("moe_layer_step", 1)) == (first, step)
    assert (model["dense_intermediate"] > 0) == (first > 0 or step > 1)


@pytest.mark.parametrize("text", ["{", "[1]", '{"model_type": "llama"}', "\u0000"])
def test_a_file_that_is_none_is_one_message(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    assert run(["spec", "resolve", str(path)]) == 2
    message = capsys.readouterr().err
    assert str(path) in message and "Traceback" not in message and message.count("\n") == 1


PUBLISHED = {path.stem: json.loads(path.read_text()) for path in sorted(MODELS.glob("*.json"))}
# As published beside these keys; the shapes above leave them out.
SAID = {"hidden_act": "silu", "tie_word_embeddings": False}
GROUPS = {"n_group": 8, "topk_group": 4}
PUBLISHED |= {"mixtral-8x7b": MIXTRAL | SAID, "deepseek-v3": DEEPSEEK_V3 | SAID | GROUPS}


@pytest.mark.parametrize("name", PUBLISHED)
def test_fields_alone_say_what_the_family_says(tmp_path: Path, name: str) -> None:
    config = dict(PUBLISHED[name])
    known = read(tmp_path, config)
    for key in ("model_type", "architectures"):
        config.pop(key, None)
        if "text_config" in config:
            config["text_config"] = {k: v for k, v in config["text_config"].items() if k != key}
    assert read(tmp_path, config) == known | {"name": "config"}


@pytest.mark.parametrize("quantity", huggingface_keys.NAMES)
def test_each_name_of_a_quantity_is_read_alike(tmp_path: Path, quantity: str) -> None:
    names = huggingface_keys.NAMES[quantity]
    plain = {key: value for key, value in DEEPSEEK_V3.items() if key not in names}
    (value,) = (DEEPSEEK_V3[key] for key in names if key in DEEPSEEK_V3)
    for name in names:
        assert read(tmp_path, plain | {name: value}) == preset("deepseek-v3", name="deepseek_v3")
    assert read(tmp_path, plain | dict.fromkeys(names, value)) == read(tmp_path, DEEPSEEK_V3)


def test_tied_embeddings_may_stand_beside_the_text(tmp_path: Path) -> None:
    scout = PUBLISHED["llama-4-scout"]
    text = {k: v for k, v in scout["text_config"].items() if k != "tie_word_embeddings"}
    model = read(tmp_path, scout | {"text_config": text, "tie_word_embeddings": True})
    assert model == read(tmp_path, scout) | {"tied_embeddings": True}


def test_every_listed_family_is_tested() -> None:
    inner = [config.get("text_config", config) for config in PUBLISHED.values()]
    assert {config["model_type"] for config in [*ALL, *inner]} >= set(DEFAULTS) - {"deepseek_v2"}
