import hues
import pytest
from docutils import nodes
from docutils.utils import new_document


def page(*names):
    """A page with these names in a sentence, of which one is a term, and a word of no quantity."""
    document = new_document("page")
    first, *others = names
    document += nodes.inline("", first, classes=["std-term"])
    document += [nodes.literal("", name) for name in (*others, "keyboard")]
    return document


@pytest.mark.parametrize(
    "names, classes",
    [
        (["key", "dquery", "values"], ["key", "query", "value"]),
        (["keys", "value"], [None, None]),  # of a dictionary
    ],
)
def test_names_have_hues_where_one_is_that_of_a_query(names, classes):
    document = page(*names)
    hues.give_hues(document)
    found = [[c for c in node["classes"] if c != "std-term"] for node in document]
    assert found == [*([name] if name else [] for name in classes), []]


def test_a_listing_with_a_query_has_hues_and_one_of_a_dictionary_has_none():
    def kinds(code):
        return {text: str(kind) for kind, text in hues.Python().get_tokens(code) if text.strip()}

    attention = kinds("dkey = dscores @ query")
    assert attention["d"] == "Token.Name.Cotangent" and attention["key"] == "Token.Name.Key"
    assert attention["query"] == "Token.Name.Query"
    assert kinds("found[key]")["key"] == "Token.Text"  # as all that is plain
