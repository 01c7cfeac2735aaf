"""Does a response hold the right answer although the filter lost it?"""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?|[-+]?\.\d+")
_STATED = re.compile(
    r"(?:answer is|answer:|####|\\boxed\{|=)\s*\$?\s*([-+]?\d[\d,]*(?:\.\d+)?)", re.I
)


def holds_answer(response: str, target: str) -> bool:
    """True when the response states the target's number, or is the target but for its form.

    Full-width digits, currency signs, thousands separators and trailing zeros do not count. Of
    many numbers only a stated one ("the answer is 72") or the last one is taken.
    """
    text, gold = unicodedata.normalize("NFKC", response), unicodedata.normalize("NFKC", target)
    wanted = _numbers(gold)
    if not wanted:
        return bool(_words(gold)) and _words(text) == _words(gold)
    stated = [_parse(found) for found in _STATED.findall(text)]
    return wanted[-1] in [*stated, *_numbers(text)[-1:]]


def _numbers(text: str) -> list[float]:
    return [_parse(found) for found in _NUMBER.findall(text)]


def _parse(text: str) -> float:
    return float(text.replace(",", ""))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())
