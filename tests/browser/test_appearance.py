"""What a page looks like on paper, without scripts, and around its article."""

import pytest
from helpers.contrast import RATIO

SHEET = {"width": 642, "height": 971}  # A4 without its margins


@pytest.mark.parametrize("page", ["book/220_multi_head_attention", "book/260_steepest_descent"])
def test_plots_are_smaller_on_paper(views, page):
    tab = views(viewport=SHEET).open(page).tab
    tab.emulate_media(media="print")
    shares = tab.locator("article svg.plot").evaluate_all(
        """all => all.map(plot => plot.getBoundingClientRect().width
            / plot.closest("article").getBoundingClientRect().width)"""
    )
    tab.emulate_media(media="screen")
    assert shares and max(shares) <= 0.6


@pytest.mark.parametrize(
    "page", ["book/130_softmax", "book/api_ops", "book/notation", "notebooks/210_attention"]
)
def test_formulas_need_no_script(views, page):
    article = views(java_script_enabled=False).open(page).tab.locator("article")
    formulas = article.locator("math:not(details:not([open]) *)")
    assert formulas.count()
    unseen = """all => all.filter(formula => !formula.checkVisibility()
        || !formula.getBoundingClientRect().width).map(formula => formula.textContent)"""
    assert formulas.evaluate_all(unseen) == []
    text = article.inner_text()
    assert r"\(" not in text and r"\[" not in text


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_way_back_to_the_top_stands_out(views, theme):
    tab = views(reduced_motion="reduce").open("book/210_attention").tab
    tab.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    contrast = tab.locator("#pst-back-to-top").evaluate(f"""button => {{
      {RATIO}
      const {{ color, backgroundColor }} = getComputedStyle(button);
      return ratio(color, backgroundColor);
    }}""")
    tab.evaluate("() => { document.documentElement.dataset.theme = 'light' }")
    assert contrast >= 4.5


def test_the_headings_of_the_side_bar_lie_inside_it(views):
    tab = views().open("book/210_attention").tab
    outside = tab.locator(".bd-sidebar-primary").evaluate(
        """bar => {
          const { left, right } = bar.getBoundingClientRect();
          return [...bar.querySelectorAll(".caption-text, .title")].filter(heading => {
            const box = heading.getBoundingClientRect();
            return !box.width || box.left < left || box.right > right;
          }).map(heading => heading.textContent).concat(
            bar.scrollWidth > bar.clientWidth ? ["scrolls"] : []);
        }"""
    )
    assert outside == []
    assert tab.locator(".bd-sidebar-primary .caption-text").count() > 5
