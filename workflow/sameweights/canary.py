"""The canary: short texts with known log-probabilities that every cell must reproduce first.

The reference values come from the hub: the fp32 torch backend without any instruction-set cap.
A backend that is one position off, returns zeros, or whose integer kernel is wrong under a cap
lies far outside the tolerance of its precision, and is stopped before it can produce a number.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from runner.contract import CellSpec, Request, file_sha256, read_responses, write_jsonl
from sameweights.errors import UserError
from sameweights.remote.driver import run_on_device
from sameweights.remote.local import LocalTransport

CONTEXT_TOKENS = 8

TEXTS = (
    "The first train of the day leaves the harbour at half past five and reaches the old market "
    "square twelve minutes later. On Sundays it starts an hour later, and in winter it does not "
    "run at all, because the bridge over the river is closed to traffic.",
    "def mean(values):\n    total = 0.0\n    for value in values:\n        total += value\n"
    "    return total / len(values)\n",
    "To find out how many litres fit into the tank, multiply its length, width and height in "
    "decimetres. A tank of 5 by 4 by 3 decimetres therefore holds 60 litres of water.",
    "interface eth0 has address 192.168.10.24 and listens on port 8443; interface eth1 has "
    "address 10.0.0.7 and listens on port 22.",
)


def canary_requests(model_dir: Path) -> list[Request]:
    """Return one log-likelihood request a text: its first tokens as context, the rest scored."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    requests = []
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        requests.append(Request("loglikelihood", ids[:CONTEXT_TOKENS], ids[CONTEXT_TOKENS:]))
    return requests


def reference_spec(model: str, files: dict[str, str], requests_sha256: str) -> CellSpec:
    """Return the cell that measures the reference values: fp32, eager attention, one thread."""
    return CellSpec(
        cell=f"{model}/hub/torch/fp32/s0",
        model=model,
        device="hub",
        backend="torch",
        precision="fp32",
        seed=0,
        replicate=0,
        adapter="torch",
        options={"batch_size": 1, "attention": "eager"},
        recipe={"weights": "fp32", "activations": "fp32", "compute": "fp32"},
        env={},
        threads=1,
        files=files,
        requests_sha256=requests_sha256,
    )


def write_canary(requests: list[Request], responses_path: Path, out: Path) -> None:
    """Keep the reference run's per-token log-probabilities; raises UserError when it has holes."""
    by_id = {response.request_id: response for response in read_responses(responses_path)}
    rows = []
    for request in requests:
        response = by_id.get(request.request_id)
        if response is None or response.status != "ok" or not response.token_logprobs:
            found = response.error if response else "no response"
            raise UserError(f"{responses_path}: the canary's reference run failed: {found}")
        rows.append(response.token_logprobs)
    record: dict[str, Any] = {
        "requests": [request.to_json() for request in requests],
        "token_logprobs": rows,
    }
    part = out.with_name(out.name + ".part")
    part.write_text(json.dumps(record, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(out)


def write_requests(requests: list[Request], path: Path) -> None:
    """Write requests in the form that travels to a device."""
    write_jsonl(path, (request.to_json() for request in requests))


def measure_canary(
    model: str, model_dir: Path, manifest: Path, runner_pyz: Path, out: Path
) -> None:
    """Measure the reference values by an ordinary run on this machine and write them to `out`."""
    files = json.loads(manifest.read_bytes())["files"]
    requests = canary_requests(model_dir)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        requests_path = folder / "requests.jsonl"
        write_requests(requests, requests_path)
        cell_json = folder / "cell.json"
        spec = reference_spec(model, files, file_sha256(requests_path))
        cell_json.write_text(json.dumps(spec.to_json()), encoding="utf-8")
        transport = LocalTransport(folder / "device")
        record = run_on_device(
            transport, runner_pyz, cell_json, requests_path, model_dir, folder / "out"
        )
        if record.outcome != "complete":
            log = (folder / "out" / "runner.log").read_text(errors="replace")[-2000:]
            raise UserError(f"{model}: the canary's reference run {record.reason}\n{log}")
        write_canary(requests, folder / "out" / "responses.jsonl", out)
