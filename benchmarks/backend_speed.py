"""A backend's generation against its runtime's own loop: the same model, prompts and threads.

    PYTHONPATH=workflow ENV/bin/python benchmarks/backend_speed.py \\
        --cell CELL.json --model DIR --requests REQUESTS.jsonl [--count 8] [--tokens 48]

`--cell` is the cell.json of a run of that backend, `--model` the folder that the run got, ENV the
backend's environment. Both write greedily, one prompt at a time, until the end-of-text token or
`--tokens`. Seconds are CPU seconds, the best of `--rounds`, taken in turns: they hold on a busy
machine. Exits with 1 where the backend reaches less than `--at-least` of the runtime's own speed.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.backends import load_adapter
from runner.contract import CellSpec, Request, read_jsonl
from runner.host import set_environment

Loop = Callable[[list[int], int], list[int]]
"""Writes up to so many tokens after a prompt; returns their ids."""


def onnxruntime_loop(folder: Path, spec: CellSpec) -> Loop:
    """onnxruntime-genai's generator."""
    import onnxruntime_genai as genai

    settings = json.loads((folder / "genai_config.json").read_bytes())
    settings["model"]["decoder"]["session_options"]["intra_op_num_threads"] = spec.threads
    with tempfile.TemporaryDirectory() as place:
        for path in folder.iterdir():
            (Path(place) / path.name).symlink_to(path.resolve())
        own = Path(place) / "genai_config.json"
        own.unlink()
        own.write_text(json.dumps(settings))
        model = genai.Model(place)

    def write(prompt: list[int], count: int) -> list[int]:
        parameters = genai.GeneratorParams(model)
        parameters.set_search_options(max_length=len(prompt) + count, do_sample=False)
        generator = genai.Generator(model, parameters)
        generator.append_tokens(prompt)
        while not generator.is_done():
            generator.generate_next_token()
        return [int(token) for token in generator.get_sequence(0)[len(prompt) :]]

    return write


def openvino_loop(folder: Path, spec: CellSpec) -> Loop:
    """optimum-intel's model class and its generate(), with the backend's own settings."""
    import torch
    from optimum.intel import OVModelForCausalLM

    from runner.backends.openvino import settings_of

    torch.set_num_threads(spec.threads)
    settings = settings_of(spec.recipe, spec.threads)
    model = OVModelForCausalLM.from_pretrained(str(folder), ov_config=settings, use_cache=True)

    def write(prompt: list[int], count: int) -> list[int]:
        ids = torch.tensor([prompt])
        written = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False
        )
        return [int(token) for token in written[0][len(prompt) :]]

    return write


def llamacpp_loop(folder: Path, spec: CellSpec) -> Loop:
    """llama-cpp-python's Llama.generate() with its own greedy sampler."""
    from llama_cpp import Llama

    from runner.backends._llama_context import KV_TYPES
    from runner.backends.llamacpp import FILE

    kv_type = KV_TYPES[spec.recipe.get("kv_cache", "fp32")]
    model = Llama(
        str(folder / FILE),
        n_ctx=json.loads((folder / "config.json").read_bytes())["max_position_embeddings"],
        n_batch=spec.options["n_batch"],
        n_ubatch=spec.options["n_ubatch"],
        n_threads=spec.threads,
        n_threads_batch=spec.threads,
        flash_attn=spec.options["flash_attention"],
        type_k=kv_type,
        type_v=kv_type,
        verbose=False,
    )
    end = json.loads((folder / "config.json").read_bytes())["eos_token_id"]

    def write(prompt: list[int], count: int) -> list[int]:
        model.reset()  # or it would keep the prefix of the last prompt
        ids: list[int] = []
        for token in model.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0):
            ids.append(int(token))
            if len(ids) == count or token == end:
                break
        return ids

    return write


OWN_LOOPS: dict[str, Callable[[Path, CellSpec], Loop]] = {
    "onnxruntime": onnxruntime_loop,
    "openvino": openvino_loop,
    "llamacpp": llamacpp_loop,
}


def backend_loop(folder: Path, spec: CellSpec) -> Loop:
    """The adapter, as a run calls it, at batch size 1."""
    adapter = load_adapter(spec.adapter)
    alone = {"batch_size": 1} if "batch_size" in adapter.OPTIONS else {}
    backend: Any = adapter(folder, replace(spec, options={**spec.options, **alone}))

    def write(prompt: list[int], count: int) -> list[int]:
        (answer,) = backend.generate([Request("generate", prompt, max_new_tokens=count)])
        return list(answer.token_ids)

    return write


def tokens_per_second(loop: Loop, prompts: list[list[int]], count: int) -> tuple[float, int]:
    """Return tokens written per CPU second, and how many there were."""
    started = time.process_time()
    written = sum(len(loop(prompt, count)) for prompt in prompts)
    return written / (time.process_time() - started), written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cell", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--at-least", type=float, default=0.9)
    options = parser.parse_args()
    spec = CellSpec.from_json(json.loads(options.cell.read_bytes()))
    if spec.adapter not in OWN_LOOPS:
        parser.error(f"adapter {spec.adapter!r} has no own loop here; {', '.join(OWN_LOOPS)} have")
    requests = map(Request.from_json, read_jsonl(options.requests))
    prompts = [r.prompt_ids for r in requests if r.kind == "generate"][: options.count]
    if not prompts:
        parser.error(f"{options.requests}: no generate requests")
    set_environment(spec.env, spec.threads)
    loops = {
        "own": OWN_LOOPS[spec.adapter](options.model, spec),
        "backend": backend_loop(options.model, spec),
    }
    best = dict.fromkeys(loops, 0.0)
    for _ in range(options.rounds):
        for name, loop in loops.items():
            rate, written = tokens_per_second(loop, prompts, options.tokens)
            best[name] = max(best[name], rate)
            print(f"{name:8} {written} tokens, {rate:.1f} per CPU second", flush=True)
    ratio = best["backend"] / best["own"]
    enough = ratio >= options.at_least
    word = "at least" if enough else "less than"
    print(f"{spec.cell}: {ratio:.2f} of the runtime's own speed, {word} {options.at_least}")
    return 0 if enough else 1


if __name__ == "__main__":
    raise SystemExit(main())
