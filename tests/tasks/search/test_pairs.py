from transformer_core.tasks.search.pairs import Pair, pairs
from transformer_core.tasks.texts.documents import Document


def test_a_pair_is_the_first_sentence_without_the_name_and_the_rest():
    text = "With vstack you stack arrays vertically. " + "This is along the first axis. " * 9
    (pair,) = pairs([Document("vstack", text)])
    assert pair.name == "vstack" and pair.question == "With you stack arrays vertically."
    assert len(pair.answer.split()) == 48 and pair.answer.startswith("This is along")


def test_what_is_short_private_or_said_before_is_no_pair():
    rest = "one two three four five six seven eight"
    first = "Return the largest element."
    documents = [
        Document("max", f"{first} {rest}"),
        Document("amax", f"{first} Other {rest}"),  # the same question
        Document("_max", f"Return the largest of all. {rest}"),
        Document("short", f"Too short. {rest}"),
        Document("min", "Return the smallest element. That is all."),
        Document("one", "There is no other sentence here"),
    ]
    assert pairs(documents) == [Pair("max", first, rest)]
