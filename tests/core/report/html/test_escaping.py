"""Whatever a name holds, it is text on the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.html.page import cleaned, parts
from perftui.report.html.step_chart import number
from tests.core.report.html.pages import read

TEXTS = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "</script><img src=x onerror=alert(1)>",
            "</title></style></code>",
            '"><svg onload=alert(1)>',
            "&lt;b&gt; &amp;amp; &#60;",
            "{{ 7 * 7 }}{% for x in y %}",
            "<!-- ",
            "]]>",
            "<![CDATA[",
            "void f<int>(T const&)",
            "\x1b[2J\x00\u202eabc\ud800",
        ]
    ),
)


@given(TEXTS, TEXTS)
def test_a_page_gives_back_text_and_attribute(text: str, attribute: str) -> None:
    page = read(parts().name(text, attribute))
    code = page.only("code")
    assert code.text == cleaned(text)
    assert code.attributes == ({"title": cleaned(attribute)} if text != attribute else {})
    assert [one.tag for one in page.every()] == ["code"]


@given(TEXTS)
def test_no_control_code_is_left_but_tabs(text: str) -> None:
    page = str(parts().name(text, f"{text}."))
    page.encode()
    left = {char for char in page if not char.isprintable()} - {"\t", " "}
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in left)
    assert not left & set("\u2028\u2029\u202e\u2066\u200b\ufeff")


@given(st.floats(-1e6, 1e6))
def test_a_coordinate_is_right_to_a_hundredth(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, abs=0.00501)
    assert "e" not in number(value)
