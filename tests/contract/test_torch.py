"""What is special to the torch backend: equality with stock lm-eval, sampling, caps, recipes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from runner.checks import CheckFailure
from runner.contract import Request
from runner.executor import run_batch
from runner.options import OptionError

if TYPE_CHECKING:
    from tests.contract.conftest import Case

WORDS = ("the", "cat", "sat", "on", "a", "mat", "one", "two", "red", "fox", "dog", "ran", "lazy")
INT8 = {"weights": "int8", "library": "torchao"}
INT4 = {**INT8, "weights": "int4", "group": 32}
DEQUANTIZED = {**INT8, "weights": "int8-dequantized"}


@pytest.fixture
def independent(open_backend: Callable[[str], Case]) -> Case:
    return open_backend("torch-independent")


@pytest.fixture
def open_torch(independent: Case, tiny_model: Path) -> Callable[..., Any]:
    """Open the torch backend with other options, recipe or folder."""
    from runner.backends.torch import Backend

    def get(folder: Path = tiny_model, **changes: Any) -> Backend:
        return Backend(folder, replace(independent.spec, **changes))

    return get


@pytest.fixture
def stock(tiny_model: Path) -> Any:
    return open_stock(tiny_model)


def open_stock(folder: Path) -> Any:
    from lm_eval.models.huggingface import HFLM

    return HFLM(
        pretrained=str(folder),
        device="cpu",
        dtype="float32",
        softmax_dtype="float32",
        batch_size=1,
        add_bos_token=False,
    )


def write_stock(stock: Any, prompt: str, settings: dict[str, Any]) -> str:
    from lm_eval.api.instance import Instance

    instance = Instance("generate_until", {}, (prompt, settings), 0)
    return str(stock.generate_until([instance], disable_tqdm=True)[0])


def readable_prompts(case: Case) -> list[str]:
    return [" ".join(WORDS[i : i + 3]) for i in range(0, len(WORDS) - 3, 2)]


@pytest.mark.stock
def test_scores_equal_stock_lm_eval_bit_for_bit(independent: Case, stock: Any) -> None:
    encode = independent.encode
    requests = [
        Request("loglikelihood", encode(prompt), encode(text))
        for prompt in readable_prompts(independent)
        for text in (" the cat", " door", " ran over the dog")
    ]
    rows = [(("", ""), r.prompt_ids, r.continuation_ids) for r in requests]
    expected = stock._loglikelihood_tokens(rows, disable_tqdm=True)
    found = [independent.backend.loglikelihood([request])[0] for request in requests]
    assert [(r.loglikelihood, r.is_greedy) for r in found] == expected


@pytest.mark.stock
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_texts_equal_stock_lm_eval(
    independent: Case,
    open_torch: Callable[..., Any],
    tiny_model: Path,
    tmp_path: Path,
    penalty: float,
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    settings_path = folder / "generation_config.json"
    settings = json.loads(settings_path.read_text())
    settings_path.write_text(json.dumps({**settings, "repetition_penalty": penalty}))
    backend, stock = open_torch(folder), open_stock(folder)
    stopped = 0
    for prompt in readable_prompts(independent):
        whole = Request("generate", independent.encode(prompt), max_new_tokens=12)
        text = backend.generate([whole])[0].text or ""
        for until in ([], [text[3:5] or "e"], ["\n\n", text[6:7] or "a", text[1:5] or "b"]):
            request = replace(whole, until=until)
            (found,) = backend.generate([request])
            wanted = {"until": list(until), "max_gen_toks": 12, "do_sample": False}
            assert found.text == write_stock(stock, prompt, wanted)
            stopped += found.finish_reason == "stop"
    assert stopped > 5


def test_shared_and_independent_scoring_agree_up_to_rounding(
    open_backend: Callable[[str], Case], independent: Case
) -> None:
    shared = open_backend("torch-shared")
    prompt = independent.encode("the cat sat on")
    texts = (" the mat", " door", " a red fox jumps over", " one")
    requests = [Request("loglikelihood", prompt, independent.encode(text)) for text in texts]
    together = [
        r for batch in shared.backend.plan(requests) for r in run_batch(shared.backend, batch, None)
    ]
    for request, response in zip(requests, together, strict=True):
        (alone,) = independent.backend.loglikelihood([request])
        assert response.token_logprobs == pytest.approx(alone.token_logprobs, abs=1e-5)
        assert response.top_ids == alone.top_ids


def test_replicates_are_equal_bit_for_bit(independent: Case) -> None:
    encode = independent.encode
    requests = [Request("loglikelihood", encode("the cat"), encode(" sat on the mat"))]
    requests += [Request("generate", encode("one two"), max_new_tokens=8)]
    for request in requests:
        first, second = (
            replace(run_batch(independent.backend, [request], None)[0], elapsed_s=None)
            for _ in range(2)
        )
        assert first == second
        assert first.logits_sha256 is not None


def test_a_sampled_text_depends_on_its_own_seed_alone(independent: Case) -> None:
    prompt = independent.encode("the cat sat on")

    def draw(seed: int, repeat: int, **settings: Any) -> list[int] | None:
        request = Request(
            "generate",
            prompt,
            max_new_tokens=10,
            temperature=1.5,
            sampling_seed=seed,
            repeat=repeat,
            **settings,
        )
        response: list[int] | None = independent.backend.generate([request])[0].token_ids
        return response

    assert draw(1, 0) == draw(1, 0)
    assert draw(1, 0) != draw(2, 0)
    assert draw(1, 0) != draw(1, 1)
    greedy = independent.backend.generate([Request("generate", prompt, max_new_tokens=10)])
    assert draw(1, 0, top_k=1) == greedy[0].token_ids
    assert draw(1, 0, top_p=1e-9) == greedy[0].token_ids


def test_draws_follow_the_distribution() -> None:
    import torch
    from scipy.stats import chisquare

    from runner.backends._torch_generate import choose
    from runner.backends._writing import draw_seed

    scores = torch.tensor([2.0, 1.0, 0.0, -1.0])
    request = Request("generate", [1], max_new_tokens=1, temperature=2.0, top_k=3)
    counts = [0, 0, 0, 0]
    for seed in range(1500):
        own = replace(request, sampling_seed=seed)
        counts[choose(scores, own, torch.Generator().manual_seed(draw_seed(own)))] += 1
    expected = torch.softmax(scores[:3].double() / 2.0, dim=0) * 1500
    assert counts[3] == 0
    assert chisquare(counts[:3], expected.numpy()).pvalue > 1e-3


def test_text_that_the_window_cuts_is_truncated(independent: Case) -> None:
    window = independent.backend.window or 0
    request = Request("generate", [9] * (window - 3), max_new_tokens=20)
    (response,) = independent.backend.generate([request])
    assert response.status == "truncated"
    assert f"window of {window}" in (response.error or "")
    assert response.token_ids is None


def test_nan_weights_give_a_status(open_torch: Callable[..., Any], independent: Case) -> None:
    import torch

    backend = open_torch()
    with torch.no_grad():
        backend.loaded.model.model.norm.weight[0] = torch.nan
    requests = [
        Request("loglikelihood", independent.encode("the"), independent.encode(" cat")),
        Request("generate", independent.encode("the"), max_new_tokens=3),
    ]
    for request in requests:
        (response,) = run_batch(backend, [request], None)
        assert (response.status, response.error) == ("error", "non-finite logits")
        assert response.loglikelihood is None
        assert response.text is None


@pytest.mark.parametrize(
    ("recipe", "layers", "close_nats"),
    [
        ({"weights": "bf16", "activations": "bf16", "compute": "bf16"}, 0, 0.4),
        ({"weights": "fp16", "activations": "fp16", "compute": "fp16"}, 0, 0.05),
        ({**INT8, "activations": "bf16", "compute": "bf16"}, 14, 0.4),
        ({**INT8, "activations": "fp32", "compute": "fp32"}, 14, 0.4),
        ({**DEQUANTIZED, "activations": "bf16", "compute": "bf16"}, 14, 0.4),
        ({**DEQUANTIZED, "activations": "fp32", "compute": "fp32"}, 14, 0.4),
        ({**INT4, "activations": "bf16", "compute": "bf16"}, 14, 2.0),
        ({**INT4, "activations": "fp32", "compute": "fp32"}, 14, 2.0),
    ],
)
def test_recipes_change_the_numbers_a_little(
    open_torch: Callable[..., Any],
    independent: Case,
    recipe: dict[str, Any],
    layers: int,
    close_nats: float,
) -> None:
    backend = open_torch(recipe=recipe)
    request = Request(
        "loglikelihood", independent.encode("the cat sat"), independent.encode(" on the mat")
    )
    (exact,) = independent.backend.loglikelihood([request])
    (found,) = backend.loglikelihood([request])
    assert found.logits_sha256 != exact.logits_sha256
    assert found.token_logprobs == pytest.approx(exact.token_logprobs, abs=close_nats)
    assert backend.describe()["quantized_layers"] == layers


@pytest.mark.parametrize("compute", ["bf16", "fp32"])
def test_dequantized_weights_are_those_of_the_int8_recipe(
    open_torch: Callable[..., Any], compute: str
) -> None:
    import torch

    types = {"activations": compute, "compute": compute}
    integer = dict(open_torch(recipe={**INT8, **types}).loaded.model.named_parameters())
    plain = dict(open_torch(recipe={**DEQUANTIZED, **types}).loaded.model.named_parameters())
    original = dict(
        open_torch(recipe={"weights": compute, **types}).loaded.model.named_parameters()
    )
    assert integer.keys() == plain.keys() == original.keys()
    changed = 0
    for name, weight in integer.items():
        assert type(plain[name].data) is torch.Tensor
        assert plain[name].dtype == original[name].dtype
        if not hasattr(weight, "qdata"):
            assert torch.equal(plain[name], original[name])
            continue
        # The product of 8 and 24 bits is exact in fp64; one rounding leads to the type.
        exact = weight.qdata.double() * weight.scale.double()
        assert torch.equal(plain[name].float(), exact.float().to(plain[name].dtype).float())
        changed += not torch.equal(plain[name], original[name])
    assert changed == 14


def test_int4_weights_are_whole_numbers_of_their_groups_scale(
    open_torch: Callable[..., Any],
) -> None:
    types = {"activations": "fp32", "compute": "fp32"}
    backend = open_torch(recipe={**INT4, **types})
    original = dict(open_torch(recipe={"weights": "fp32", **types}).loaded.model.named_parameters())
    for name in backend.loaded.quantized:
        weight = backend.loaded.model.get_submodule(name).weight
        plain = original[f"{name}.weight"]
        steps = weight.qdata.float()
        assert steps.min() >= -8 and steps.max() <= 7
        scale = weight.scale.float().repeat_interleave(32, dim=1)[:, : plain.shape[1]]
        # Half a step, and the one more that a symmetric range lacks on its positive side.
        assert ((steps * scale - plain).abs() <= 1.01 * scale).all()


def test_two_cells_with_the_same_quantized_bits_say_so(open_torch: Callable[..., Any]) -> None:
    def digest(recipe: dict[str, Any]) -> str | None:
        found: str | None = open_torch(recipe=recipe).describe()["quantized_sha256"]
        return found

    bf16 = {"activations": "bf16", "compute": "bf16"}
    assert digest({**INT8, **bf16}) == digest({**INT8, **bf16}) != digest({**INT4, **bf16})
    assert digest({"weights": "bf16", **bf16}) is None


def test_a_recipe_that_the_backend_cannot_run_is_refused(open_torch: Callable[..., Any]) -> None:
    with pytest.raises(OptionError, match=r"int3.*allowed.*int8-dynamic"):
        open_torch(recipe={"weights": "int3", "activations": "bf16", "compute": "bf16"})


@pytest.mark.parametrize(
    "options",
    [{"padding_side": "left"}, {"batch_size": 4, "padding_side": "left", "scoring": "shared"}],
)
def test_a_padding_side_without_effect_is_refused(
    open_torch: Callable[..., Any], options: dict[str, Any]
) -> None:
    with pytest.raises(OptionError, match="no effect"):
        open_torch(options=options)


def test_a_cap_that_is_not_in_force_is_refused(
    open_torch: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # torch reads the variable once, at its start: set now, it is a claim without effect.
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "vsx")
    with pytest.raises(CheckFailure, match="ATEN_CPU_CAPABILITY is 'vsx', but torch runs with"):
        open_torch()


def test_a_generation_setting_that_is_not_implemented_is_refused(
    open_torch: Callable[..., Any], tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "no_repeat_ngram_size": 3}))
    with pytest.raises(CheckFailure, match="no_repeat_ngram_size"):
        open_torch(folder)


def test_shared_scoring_of_sliding_windows_is_refused(
    open_torch: Callable[..., Any], tiny_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["layer_types"] = ["sliding_attention", "full_attention"]
    path.write_text(json.dumps(config))
    with pytest.raises(CheckFailure, match="sliding_attention"):
        open_torch(folder, options={"scoring": "shared"})
