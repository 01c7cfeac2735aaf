"""Stands in for sglang 0.5: srt/entrypoints/engine.py (Engine), srt/managers/tokenizer_manager.py.

`meta_info` holds `input_token_logprobs` and `output_token_logprobs`, (value, id, text) a token, and
`input_top_logprobs` and `output_top_logprobs`, a list of such a token; the first token of a prompt
has the value None. Prompt positions come from `logprob_start_len` on, -1 for none.
"""

from __future__ import annotations

from typing import Any

from stub_candidates import Candidates, CandidatesModel

from sglang.srt.sampling.sampling_params import SamplingParams
from sglang.srt.server_args import ServerArgs

__version__ = "0.5.23"


class Engine:
    def __init__(self, **kwargs: Any) -> None:
        self.server_args = ServerArgs(**kwargs)
        self.model = CandidatesModel(self.server_args.model_path)

    def generate(
        self,
        prompt: list[str] | str | None = None,
        sampling_params: dict[str, Any] | None = None,
        input_ids: list[int] | None = None,
        return_logprob: bool = False,
        logprob_start_len: int | None = None,
        top_logprobs_num: int | None = None,
        stream: bool = False,
    ) -> dict[str, Any]:
        params = SamplingParams(**(sampling_params or {}))
        assert input_ids is not None and return_logprob and top_logprobs_num
        if len(input_ids) + (params.max_new_tokens or 0) > (self.server_args.context_length or 0):
            raise ValueError("prompt and new tokens exceed context_length")
        written, found = self.model.write(
            input_ids, params.max_new_tokens or 0, list(params.stop or []),
            params.stop_token_ids or [], top_logprobs_num, params.temperature,
            params.sampling_seed or 0,
        )  # fmt: skip
        if self.server_args.disable_radix_cache is False:
            self.model.model.fault = "suffix"
        own: list[Any] = []
        best: list[Any] = []
        if logprob_start_len == 0:
            scored = self.model.score(input_ids, top_logprobs_num)
            own, best = spell(scored, input_ids[-len(scored) :], top_logprobs_num)
            own, best = [(None, input_ids[0], None), *own], [None, *best]
        out_own, out_best = spell(found, written[-len(found) :], top_logprobs_num)
        meta = {
            "input_token_logprobs": own,
            "input_top_logprobs": best,
            "output_token_logprobs": out_own,
            "output_top_logprobs": out_best,
        }
        return {"text": "", "output_ids": written, "meta_info": meta}


def spell(found: list[Candidates], tokens: list[int], count: int) -> tuple[list[Any], list[Any]]:
    own = [(entry.get(token, 0.0), token, None) for entry, token in zip(found, tokens, strict=True)]
    best = [sorted(((v, k, None) for k, v in e.items()), reverse=True)[:count] for e in found]
    return own, best
