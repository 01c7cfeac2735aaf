"""Colours of the page: readable on their backgrounds and told apart by every kind of sight.

Contrast is WCAG 2.1's: relative luminance and contrast ratio of
https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio, with the limits of its criteria 1.4.3 (text,
4.5:1) and 1.4.11 (graphics, 3:1). Colour blindness is simulated with the matrices of Machado,
Oliveira and Fernandes, "A physiologically-based model for simulation of color vision deficiency"
(IEEE TVCG 15(6), 2009, table 1, severity 1.0) on linear RGB; differences are CIE76 in CIELAB (D65).
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sameweights.report.charts import COLOURS
from sameweights.report.pairs import AGAINST

Colour = NDArray[np.float64]
"""Three parts of sRGB, 0 to 1."""

THEMES = ("light", "dark", "print")
TEXT, GRAPHIC, TOLD_APART = 4.5, 3.0, 20.0

SIGHTS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
"""Linear sRGB to CIE XYZ (IEC 61966-2-1); its rows sum to the white point D65."""


def parse(spelled: str) -> Colour:
    digits = spelled.lstrip("#")
    if len(digits) == 3:
        digits = "".join(2 * digit for digit in digits)
    return np.array([int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)])


def linear(colour: Colour) -> Colour:
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def contrast(one: Colour, other: Colour) -> float:
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def seen(colour: Colour, sight: Colour) -> Colour:
    """CIELAB of a colour as a kind of sight has it."""
    xyz = TO_XYZ @ np.clip(sight @ linear(colour), 0, 1) / TO_XYZ.sum(axis=1)
    edge = 6 / 29
    f = np.where(xyz > edge**3, np.cbrt(xyz), xyz / (3 * edge**2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: Colour, other: Colour, sight: Colour) -> float:
    return float(np.linalg.norm(seen(one, sight) - seen(other, sight)))


@pytest.fixture(scope="module")
def style(root: Path) -> str:
    return (root / "report/style.css").read_text()


@pytest.fixture(params=THEMES)
def theme(request: pytest.FixtureRequest, style: str) -> dict[str, Colour]:
    """The custom properties of a theme; the page states each once, dark once more for a choice."""
    blocks = re.findall(r"(:root[^{]*)\{([^}]*--ink[^}]*)\}", style)
    found = [dict(re.findall(r"--([\w-]+):\s*(#\w+)", body)) for _, body in blocks]
    light, by_system, by_choice, paper = found
    assert by_system == by_choice and light == paper, "each theme is one set of colours"
    chosen = {"light": light, "dark": by_system, "print": paper}[request.param]
    return {name: parse(spelled) for name, spelled in chosen.items()}


def heat(theme: dict[str, Colour], style: str) -> Colour:
    """The fill of the heat map's hottest cell."""
    (share,) = re.findall(r"var\(--heat-ink\) calc\(var\(--heat\) \* (\d+)%\), transparent", style)
    return theme["heat-ink"] * int(share) / 100 + theme["paper"] * (1 - int(share) / 100)


def test_the_formula_gives_known_ratios() -> None:
    """Black on white is 21:1; #767676 is the lightest grey that passes on white."""
    white = parse("#fff")
    assert contrast(parse("#000"), white) == pytest.approx(21)
    assert contrast(parse("#767676"), white) > 4.5 > contrast(parse("#777777"), white)
    assert difference(parse("#000"), white, SIGHTS["usual"]) == pytest.approx(100, abs=0.01)


def test_text_is_readable_on_every_background(theme: dict[str, Colour], style: str) -> None:
    words = ("ink", "soft", "lost", "won", "accent")
    places = {name: theme[name] for name in ("paper", "tint")} | {"heat": heat(theme, style)}
    pairs = {
        (word, place): contrast(theme[word], colour)
        for word in words
        for place, colour in places.items()
    }
    pairs["ink", "mark"] = contrast(theme["ink"], theme["mark"])
    assert {pair: ratio for pair, ratio in pairs.items() if ratio < TEXT} == {}


def test_graphics_stand_out(theme: dict[str, Colour], style: str) -> None:
    paper = theme["paper"]
    pairs = {name: contrast(parse(spelled), paper) for name, spelled in COLOURS.items()}
    # The sides of a changed item, the rim of the marked token, hatching of the holes.
    pairs |= {name: contrast(theme[name], paper) for name in ("lost", "won", "soft", "hatch")}
    pairs["hatch on tint"] = contrast(theme["hatch"], theme["tint"])
    # The bar of a heat map's cell, on the cell's own fill and beside it.
    pairs["heat bar"] = contrast(theme["heat-bar"], paper)
    pairs["heat bar on heat"] = contrast(theme["heat-bar"], heat(theme, style))
    assert {pair: ratio for pair, ratio in pairs.items() if ratio < GRAPHIC} == {}


@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_of_charts_are_told_apart(sight: str) -> None:
    pairs = {
        pair: difference(*(parse(COLOURS[name]) for name in pair), SIGHTS[sight])
        for pair in itertools.combinations(COLOURS, 2)
    }
    assert len(AGAINST) == 2
    assert {pair: found for pair, found in pairs.items() if found < TOLD_APART} == {}


@pytest.mark.parametrize("sight", SIGHTS)
def test_lost_and_won_are_told_apart(theme: dict[str, Colour], sight: str) -> None:
    assert difference(theme["lost"], theme["won"], SIGHTS[sight]) >= TOLD_APART
