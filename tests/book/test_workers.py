import multiprocessing
import pickle
import sys

import pytest
from api import have_one_document
from docutils import nodes
from docutils.utils import new_document
from mathematics import typeset


def test_a_page_is_stored_without_what_its_docstrings_were_read_with():
    page, docstring = new_document("page"), new_document("docstring")
    docstring.settings.env = ["the environment" * 1000]
    docstring += nodes.paragraph()
    docstring[0] += nodes.literal("", "softmax")
    page.extend(docstring.children)
    for document in (page, docstring):
        document.reporter = None
    assert len(pickle.dumps(page)) > 15_000
    have_one_document(None, page)
    assert {node.document for node in page.findall()} == {page}
    assert len(pickle.dumps(page)) < 5_000


@pytest.mark.skipif(sys.platform != "linux", reason="pages are written one by one")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # a fork, with threads
def test_a_process_sets_formulas_that_the_first_one_has_not():
    first = typeset("x + 1")
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(typeset, ["x + 2"]).get(30) == first.replace("1", "2")
