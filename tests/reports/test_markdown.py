"""The pages' Markdown becomes plain HTML, and whatever stands in it is text."""

from reports.markdown import html_of_markdown, sections


def test_paragraphs_lists_and_code() -> None:
    html = html_of_markdown("One\ntwo *three* `a < b`.\n\n- first\n  goes on\n- second\n\n```\nx  <y>\n\nz\n```\nafter")
    assert html == (
        "<p>One two <em>three</em> <code>a &lt; b</code>.</p><ul><li>first goes on</li><li>second</li></ul>"
        "<pre>x  &lt;y&gt;\n\nz</pre><p>after</p>"
    )


def test_a_link_is_its_text_and_tags_are_escaped() -> None:
    assert html_of_markdown("see [KIP-101](https://example.org/x) <b>") == "<p>see KIP-101 &lt;b&gt;</p>"


def test_sections_begin_at_their_headings_and_not_inside_code() -> None:
    text = "# Title\n\nopening\n\n## One\n\nfirst\n\n```\n## no heading\n```\n\n## Two\n\nsecond\n"
    assert sections(text) == [("", "opening"), ("One", "first\n\n```\n## no heading\n```"), ("Two", "second")]
