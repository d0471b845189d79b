import pytest

from transformer_core.tasks.texts.documents import Document, read_documents, split

PARAGRAPH = "All cats chase mice. " * 20  # 420 characters
PASSAGE = [f"{k} {PARAGRAPH.strip()}" for k in range(7)]


def test_a_file_becomes_passages_of_whole_paragraphs(tmp_path):
    file = tmp_path / "cats.txt"
    file.write_text("\n\n".join(PASSAGE))
    documents = read_documents(file)
    assert [document.name for document in documents] == [f"cats.txt {k}" for k in range(3)]
    assert "\n".join(document.text for document in documents).split("\n") == PASSAGE
    assert all(len(document.text) >= 1000 for document in documents[:-1])


def test_lines_of_a_paragraph_are_joined(tmp_path):
    (tmp_path / "a.txt").write_text("one\n  two\tthree\n \n\nfour\n")
    assert read_documents(tmp_path) == [Document("a.txt 0", "one two three\nfour")]


def test_a_folder_is_read_with_the_folders_in_it(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.txt").write_text("\ufefffirst", encoding="utf-8")
    (tmp_path / "inner" / "c.txt").write_text("third")
    (tmp_path / "d.md").write_text("fourth")
    (tmp_path / "e.rst").write_text("fifth")
    (tmp_path / "f.py").write_text("no text file")
    texts = [document.text for document in read_documents(tmp_path)]
    assert texts == ["first", "second", "fourth", "fifth", "third"]


def test_what_occurs_twice_is_read_once(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("the same")
    assert len(read_documents(tmp_path)) == 1


def test_documents_of_one_name_fall_on_one_side():
    documents = [Document(f"object {k % 50}", f"{k}: text {k // 50}") for k in range(500)]
    training, held_out = split(documents, share=0.2)
    assert sorted(training + held_out) == sorted(d.text for d in documents)
    name = {document.text: document.name for document in documents}
    assert {name[text] for text in training}.isdisjoint(name[text] for text in held_out)
    assert 0.05 < len(held_out) / len(documents) < 0.4


def test_the_split_depends_on_the_names_alone():
    documents = [Document(str(k), f"text {k}") for k in range(300)]
    training, held_out = split(documents)
    assert split(documents[::-1]) == (training[::-1], held_out[::-1])
    assert set(split(documents[:200])[1]) <= set(held_out)
    # A digest of the names, so that another run of Python gives the same.
    assert held_out[:3] == ["text 39", "text 51", "text 55"]


def test_names_that_are_not_utf_8_are_split_too():
    documents = [Document(f"caf\udce9.txt {k}", f"{k}") for k in range(200)]
    training, held_out = split(documents, share=0.3)
    assert len(training) + len(held_out) == 200


def test_an_empty_path_is_not_the_folder_one_is_in():
    with pytest.raises(ValueError, match="path: expected a file or a folder, got ''"):
        read_documents("")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("missing.txt", None, "missing.txt: expected a readable file, got: .*"),
        ("", {}, r".*: expected \.txt, \.md, \.rst files in the folder, found none"),
        ("", {"a.py": b"text"}, r".*: expected \.txt, \.md, \.rst files in the folder, found none"),
        ("", {"a.txt": b" \n\t\n"}, "expected text, found only white space"),
        ("a.txt", {"a.txt": b""}, "a.txt: expected text, found only white space"),
        (
            "",
            {"a.txt": "na\u00efve".encode("latin-1")},
            "a.txt: expected text in UTF-8, got byte 0xef at 2",
        ),
        (
            "",
            {"a.txt": "cats".encode("utf-16")},
            "a.txt: expected text in UTF-8, got byte 0xff at 0",
        ),
    ],
)
def test_text_that_cannot_be_read_is_named(tmp_path, name, content, message):
    for file, octets in (content or {}).items():
        (tmp_path / file).write_bytes(octets)
    with pytest.raises(ValueError, match=message):
        read_documents(tmp_path / name)


@pytest.mark.parametrize("count", [0, 1])
def test_a_side_without_documents_is_an_error(count):
    documents = [Document("a", "text")] * count
    with pytest.raises(ValueError, match=f"to hold 5% out, got {count}"):
        split(documents)
