"""An integer kernel that is not exact is refused, with the numbers."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from runner.backends import _int8_selftest
from runner.checks import CheckFailure


def test_exact_products_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        torch, "_int_mm", lambda a, b: (a.to(torch.int64) @ b.to(torch.int64)).to(torch.int32)
    )
    assert "exact in 4 shapes" in _int8_selftest.check_int8_products()


def test_saturating_products_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def saturating(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Add pairs of products in 16 bits with saturation, as kernels without VNNI do."""
        products = a.to(torch.int64)[:, :, None] * b.to(torch.int64)[None]
        pairs = products.unflatten(1, (-1, 2)).sum(2).clamp(-(2**15), 2**15 - 1)
        return pairs.sum(1).to(torch.int32)

    monkeypatch.setattr(torch, "_int_mm", saturating)
    monkeypatch.setattr(_int8_selftest, "SHAPES", ((17, 64, 32),))
    # Signed times signed cannot leave 16 bits in a pair but at -128 * -128 * 2 = 2^15.
    monkeypatch.setattr(
        torch, "randint", lambda low, high, shape, **_: torch.full(shape, -128, dtype=torch.int8)
    )
    with pytest.raises(CheckFailure, match=r"544 of 544 sums of 64 products.*by up to 32"):
        _int8_selftest.check_int8_products()


def test_this_machine_says_one_or_the_other() -> None:
    """In a process of its own, so that an ISA cap set by other tests plays no part."""
    code = (
        "from runner.backends._int8_selftest import check_int8_products\n"
        "from runner.checks import CheckFailure\n"
        "try:\n    print(check_int8_products())\n"
        "except CheckFailure as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "exact in" in done.stdout or "is wrong on this device" in done.stdout
