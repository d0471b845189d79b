"""What an operation lacks is said with the place to add it, and no operation lacks anything."""

import lacking
import pytest


@pytest.mark.parametrize("name", lacking.operations())
def test_no_operation_lacks_anything(name):
    assert lacking.lacks(name) == []


def test_what_an_unknown_operation_lacks_is_said_with_its_places(capsys):
    assert lacking.main(["an_operation"]) == 1
    printed = capsys.readouterr().out
    for place in [
        "ops/an_operation.py: the function an_operation_backward",
        "ops/__init__.py: an_operation, in",
        "(eq:an-operation-backward)",
        "cases.py, OPS",
        "tests/ops/test_an_operation.py",
        "TWINS",
        "graphs/an_operation.py",
        "exercises",
        "mistakes",
    ]:
        assert place in printed
    assert lacking.main(["relu"]) == 0
    assert capsys.readouterr().out == "relu lacks nothing\n"


def test_nothing_is_left_out_without_need():
    """What an operation does without, it has not."""
    for what, names in lacking.WITHOUT.items():
        assert set(names) <= set(lacking.operations()), what
        for name in names:
            exceptions = [n for n in names if n != name]
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(lacking.WITHOUT, what, exceptions)
                assert lacking.lacks(name), f"{name} has what {what} says it does without"
