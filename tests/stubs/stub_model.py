"""The model behind the stand-ins: transformers in fp32, logits padded as an engine pads them.

`fault` makes it wrong in one way of the list of traps: see FAULTS.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch

PAD = 20
FAULTS = {
    "none": "right",
    "zero logits": "all logits are 0: every token has the same probability",
    "off by one": "row i is the distribution before token i, not after it",
    "equal": "the same rows whatever the input",
    "nan": "not a number",
    "suffix": "block reuse: only the last rows come back",
    "prompt in output": "the written ids begin with the prompt",
    "shifted generation": "generation logits one position off",
    "beyond vocabulary": "a written id lies in the padding",
    "loud padding": "the padded columns are not small",
}


class StubModel:
    """Logits and text of the model in a folder of safetensors."""

    def __init__(self, folder: str | Path, fault: str = "none") -> None:
        from transformers import AutoModelForCausalLM

        assert fault in FAULTS, fault
        self.fault = fault
        self.model: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        )

    def context_logits(self, ids: list[int]) -> Any:
        """[len(ids), vocab + PAD] or what the fault makes of it."""
        if self.fault == "equal":
            ids = [1] * len(ids)
        rows = self._rows(ids)
        if self.fault == "zero logits":
            rows = torch.zeros_like(rows)
        if self.fault == "off by one":
            rows = rows.roll(1, dims=0)
        if self.fault == "nan":
            rows = rows * math.nan
        if self.fault == "suffix":
            rows = rows[-2:]
        return rows

    def write(
        self,
        prompt: list[int],
        limit: int,
        stops: list[list[int]],
        end_id: int | None,
        temperature: float | None = None,
        seed: int = 0,
    ) -> tuple[list[int], Any]:
        """Return ids and logits [len(ids), vocab + PAD]; stop words stay, an end_id does not."""
        generator = torch.Generator().manual_seed(seed % 2**63)
        ids: list[int] = []
        rows = []
        while len(ids) < limit:
            row = self._rows(prompt + ids)[-1]
            real = row[:-PAD]
            if temperature:
                token = int(
                    torch.multinomial((real / temperature).softmax(0), 1, generator=generator)
                )
            else:
                token = int(real.argmax())
            if token == end_id:
                break
            ids.append(token)
            rows.append(row)
            if any(ids[-len(stop) :] == stop for stop in stops):
                break
        if self.fault == "prompt in output":
            return prompt + ids, torch.stack(rows)
        if self.fault == "beyond vocabulary":
            ids[0] = len(rows[0]) - 1
        logits = torch.stack(rows)
        if self.fault == "shifted generation":
            logits = logits.roll(1, dims=0)
        return ids, logits

    @torch.no_grad()
    def _rows(self, ids: list[int]) -> Any:
        rows = self.model(torch.tensor([ids])).logits[0]
        loud = 9.0 if self.fault == "loud padding" else 0.0
        return torch.nn.functional.pad(rows, (0, PAD), value=loud)
