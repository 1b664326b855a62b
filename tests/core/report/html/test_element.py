"""Whatever a name holds, it is text on the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.html.element import cleaned, element, number, written
from tests.core.report.html.pages import read

TEXTS = st.one_of(
    st.text(),
    st.sampled_from(
        [
            "</script><img src=x onerror=alert(1)>",
            "</title></style></code>",
            '"><svg onload=alert(1)>',
            "&lt;b&gt; &amp;amp; &#60;",
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
    page = read(written(element("p", element("code", text, title=attribute), "after")))
    code = page.only("p").only("code")
    assert code.text == cleaned(text)
    assert code.attributes == {"title": cleaned(attribute)}
    assert page.only("p").children[-1] == "after"
    assert [one.tag for one in page.every()] == ["p", "code"]


@given(TEXTS)
def test_no_control_code_is_left_but_tabs(text: str) -> None:
    page = written(element("pre", text, title=text))
    page.encode()
    left = {char for char in page if not char.isprintable()} - {"\t", " "}
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in left)
    assert not left & set("\u2028\u2029\u202e\u2066\u200b\ufeff")


@pytest.mark.parametrize(
    ("name", "value"),
    [("src", "x.png"), ("href", "page.html"), ("onclick", "go()"), ("srcset", "a"), ("data", "b")],
)
def test_nothing_that_loads_or_runs_can_be_made(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        element("a", "text", **{name: value})


def test_a_link_leads_to_a_place_of_the_page() -> None:
    assert written(element("a", "up", href="#top")) == '<a href="#top">up</a>'


def test_a_style_sheet_is_not_escaped_and_cannot_end() -> None:
    assert written(element("style", "a>b{}")) == "<style>a>b{}</style>"
    with pytest.raises(ValueError, match="without tags"):
        written(element("style", "</style><script>"))


@given(st.floats(-1e6, 1e6))
def test_a_coordinate_is_right_to_a_hundredth(value: float) -> None:
    assert float(number(value)) == pytest.approx(value, abs=0.00501)
    assert "e" not in number(value)
