"""Nothing that is put inside the page can end its element or run unasked."""

from __future__ import annotations

import base64
import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from sameweights.report.embed import dump_json, policy, wrap_script

TEXT = st.text(st.characters(exclude_categories=()))


@given(st.dictionaries(TEXT, st.lists(TEXT | st.integers() | st.none())))
def test_json_reads_back_and_holds_no_markup(value: object) -> None:
    text = dump_json(value)
    assert json.loads(text) == value
    assert text.isascii() and not set("<>&") & set(text)


def test_non_finite_numbers_become_null() -> None:
    assert dump_json({"a": [float("nan"), float("inf"), 1.5]}) == '{"a":[null,null,1.5]}'


def test_script_cannot_end_its_element_and_keeps_its_names() -> None:
    text = wrap_script("const n = '</script><!-- x';\r\n").text
    assert "</script" not in text and "<!--" not in text and "\r" not in text
    assert text.startswith("(() => {") and text.endswith("})();")


def test_policy_allows_exactly_the_scripts_by_hash() -> None:
    scripts = [wrap_script("a()"), wrap_script("b()")]
    shas = [
        base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
        for script in scripts
    ]
    found = policy(scripts)
    assert found.endswith(f"script-src 'sha256-{shas[0]}' 'sha256-{shas[1]}'")
    assert "default-src 'none'" in found and "unsafe-eval" not in found
