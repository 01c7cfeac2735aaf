"""Integer matrix products must be exact: check this machine's int8 kernel before trusting it.

Under an instruction-set cap, kernels without VNNI multiply-accumulate in 16-bit intermediates
that saturate. The result is then wrong by thousands, silently, while a model's log-probabilities
may move by only tenths of a nat. Random data exposes it, constant data does not.
"""

from __future__ import annotations

import torch

from runner.checks import CheckFailure

SHAPES = ((17, 64, 32), (32, 576, 576), (33, 576, 1536), (40, 1536, 576))
"""(rows, inner, columns): a small one, and the products of a small transformer."""


def check_int8_products() -> str:
    """Compare `torch._int_mm` with the int64 product; raises CheckFailure when one entry differs.

    Returns a sentence for the run's record.
    """
    generator = torch.Generator().manual_seed(0)
    for rows, inner, columns in SHAPES:
        left = torch.randint(-128, 128, (rows, inner), generator=generator, dtype=torch.int8)
        right = torch.randint(-128, 128, (inner, columns), generator=generator, dtype=torch.int8)
        found = torch._int_mm(left, right).to(torch.int64)
        exact = left.to(torch.int64) @ right.to(torch.int64)
        wrong = int((found != exact).sum())
        if wrong:
            worst = int((found - exact).abs().max())
            raise CheckFailure(
                f"canary: the int8 matrix product is wrong on this device: {wrong} of "
                f"{exact.numel()} sums of {inner} products differ from exact integer arithmetic, "
                f"by up to {worst}. Usual cause: an instruction-set cap selects a kernel whose "
                "16-bit intermediates saturate (AVX2, or AVX-512 without VNNI)"
            )
    return f"int8 products exact in {len(SHAPES)} shapes"
