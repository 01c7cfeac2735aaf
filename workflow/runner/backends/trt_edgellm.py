"""TensorRT Edge-LLM (JetPack 7) through its programs llm_build and llm_inference.

It takes text and gives text: no log-likelihood, no token ids, no seed. A cell with requests of
another kind is stopped before anything is loaded. Written from examples/llm/llm_inference.cpp and
the documented input format; not run on a device.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from runner.backends._folder import read_folder
from runner.backends._trtllm_build import find_program, gpu_facts, hash_files, tensorrt_version
from runner.checks import CheckFailure
from runner.contract import CellSpec, Request, Response, digest
from runner.engine import RECORD, engine_folder, engine_key, read_engine, write_engine
from runner.journal import Log
from runner.options import Option, match_recipe, resolve_options
from runner.plan import cut
from runner.runtime import Runtime, require_flags

BUILD_FLAGS = (
    "--onnxDir",
    "--engineDir",
    "--maxBatchSize",
    "--maxInputLen",
    "--maxKVCacheCapacity",
)
RUN_FLAGS = ("--engineDir", "--inputFile", "--outputFile")
CALL = 64
"""Requests of one call of llm_inference, which loads the engine anew; they run one by one."""


class Backend:
    """Writes greedy text, one request at a time; `model_dir` is the exported ONNX folder."""

    OPTIONS: ClassVar[dict[str, Option]] = {
        "batch_size": Option(int, 1, (1,)),
        "build": Option(int, 0, minimum=0),
        "max_seq_len": Option(int, 4096, minimum=2),
    }
    PRECISIONS: ClassVar[tuple[dict[str, Any], ...]] = (
        {"weights": "fp16", "activations": "fp16", "compute": "fp16"},
    )
    EVIDENCE: ClassVar[tuple[str, ...]] = ()
    KINDS: ClassVar[tuple[str, ...]] = ("generate",)
    RUNTIME: ClassVar[Runtime] = Runtime(
        package="tensorrt-edgellm",
        supported=">=0.9,<0.12",
        tried="sources",
        tried_version="0.9",
        note="text in, text out: generation only, no evidence per token",
    )

    def __init__(self, model_dir: Path, spec: CellSpec) -> None:
        """Check version, flags and engine; every call of the program loads the engine."""
        self.options = resolve_options(spec.options, self.OPTIONS)
        match_recipe(spec.recipe, self.PRECISIONS)
        self.version = self.RUNTIME.check()
        self.program = find_program("llm_inference")
        require_flags([self.program, "--help"], RUN_FLAGS)
        self.folder = read_folder(model_dir)
        engine_dir, self.record = read_engine(spec)
        self.engine = (engine_dir / "engine").resolve()
        longest = int(self.options["max_seq_len"])
        self.window = self.folder.fit(longest)

    @classmethod
    def build(
        cls,
        model_dir: Path,
        spec: CellSpec,
        checkpoint: Path | None,
        calibration: Path | None,
        log: Log,
    ) -> Path:
        """Build the cell's engine from exported ONNX (`checkpoint`, or `model_dir`)."""
        options = resolve_options(spec.options, cls.OPTIONS)
        match_recipe(spec.recipe, cls.PRECISIONS)
        version = cls.RUNTIME.check()
        folder = engine_folder(spec)
        if (folder / RECORD).is_file():
            log(f"{folder}: built already, nothing to do")
            return folder
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        onnx = (checkpoint or model_dir) / "llm"
        if not onnx.is_dir():
            raise CheckFailure(f"{onnx}: missing; tensorrt-edgellm-export makes it on a GPU host")
        program = find_program("llm_build")
        require_flags([program, "--help"], BUILD_FLAGS)
        out = folder / "engine"
        out.mkdir(parents=True, exist_ok=True)
        length = str(options["max_seq_len"])
        values = (str(onnx), str(out), "1", length, length)
        command = [program, *(w for pair in zip(BUILD_FLAGS, values, strict=True) for w in pair)]
        run_program(command)
        record = {
            "key": engine_key(spec),
            "cell": spec.cell,
            "build": options["build"],
            "weights_digest": digest(spec.files),
            "tensorrt_edgellm": version,
            "tensorrt": tensorrt_version(),
            "gpu": gpu_facts(),
            "commands": [command],
            "files": hash_files(folder),
            "started_utc": started,
            "ended_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        write_engine(folder, record)
        return folder

    def plan(self, requests: list[Request]) -> list[list[Request]]:
        """Put requests of equal settings into one call; the program takes them once for all."""
        ordered = sorted(requests, key=_settings)
        groups = (list(group) for _, group in groupby(ordered, key=_settings))
        return [batch for group in groups for batch in cut(group, CALL)]

    def loglikelihood(self, batch: list[Request]) -> list[Response]:
        """Not possible: the runtime returns text."""
        raise ValueError("TensorRT Edge-LLM gives no log-likelihoods")

    def generate(self, batch: list[Request]) -> list[Response]:
        """Write greedy texts with one call of the program."""
        prompts = [self._prompt(request) for request in batch]
        with tempfile.TemporaryDirectory() as scratch:
            asked, answered = Path(scratch) / "in.json", Path(scratch) / "out.json"
            asked.write_text(json.dumps(input_record(batch, prompts)), encoding="utf-8")
            files = (str(self.engine), str(asked), str(answered))
            pairs = zip(RUN_FLAGS, files, strict=True)
            run_program([self.program, *(word for pair in pairs for word in pair)])
            found = json.loads(answered.read_bytes())["responses"]
        if [answer["request_idx"] for answer in found] != list(range(len(batch))):
            raise ValueError(f"llm_inference answered {len(found)} of {len(batch)} requests")
        rows = zip(batch, prompts, found, strict=True)
        return [self._answer(request, prompt, answer) for request, prompt, answer in rows]

    def decode(self, ids: list[int]) -> str:
        """Return text of token ids, for the canary."""
        return self.folder.tokenizer.decode(ids, skip_special_tokens=True)

    def describe(self) -> dict[str, Any]:
        """Return version, engine and what is missing."""
        return {
            "evidence": [],
            "missing": "log-likelihoods, token ids, seeds: the runtime takes and gives text",
            "tensorrt_edgellm": self.version,
            "options": self.options,
            "engine": self.record,
            "window": self.window,
        }

    def _prompt(self, request: Request) -> str:
        """Return the prompt as text; raises ValueError if its tokens do not come back."""
        if request.temperature != 0.0:
            raise ValueError("llm_inference takes no seed: greedy requests only")
        tokenizer = self.folder.tokenizer
        text = tokenizer.decode(request.prompt_ids)
        if tokenizer.encode(text, add_special_tokens=False) != request.prompt_ids:
            raise ValueError("the prompt's text encodes to other tokens than the request's")
        return text

    def _answer(self, request: Request, prompt: str, answer: dict[str, Any]) -> Response:
        sent = answer["formatted_complete_request"]
        if sent != prompt:
            raise ValueError(f"the runtime changed the prompt: {sent[:80]!r} for {prompt[:80]!r}")
        text = str(answer["output_text"])
        for stop in request.until:
            text = text.split(stop)[0] if stop else text
        return Response(request.request_id, "ok", text=text)


def input_record(batch: list[Request], prompts: list[str]) -> dict[str, Any]:
    """Return the program's input: one request at a time, the prompt as it is, greedy."""
    return {
        "batch_size": 1,
        "temperature": 0.0,
        "top_k": 1,
        "top_p": 1.0,
        "max_generate_length": batch[0].max_new_tokens,
        "apply_chat_template": False,
        "requests": [{"messages": [{"role": "user", "content": text}]} for text in prompts],
    }


def run_program(command: list[str]) -> None:
    """Run to the end; raises RuntimeError with its last words."""
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        words = (done.stdout + done.stderr)[-2000:].decode(errors="replace")
        raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{words}")


def _settings(request: Request) -> tuple[str, int]:
    return request.kind, request.max_new_tokens
