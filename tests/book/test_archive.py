"""The book in one archive."""

import os
from zipfile import ZipFile

import pytest
from archive import pack

FILES = {"index.html": b"front", "book/softmax.html": b"page", "_static/a.js": b"script"}


def book(folder, names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[name])
    return folder


def test_the_archive_unpacks_to_the_book_in_a_folder_of_its_name(tmp_path):
    pack(book(tmp_path / "html", FILES), tmp_path / "book.zip")
    with ZipFile(tmp_path / "book.zip") as archive:
        archive.extractall(tmp_path)
    (folder,) = {name.partition("/")[0] for name in archive.namelist()}
    assert folder == "transformers-by-hand"
    for name, content in FILES.items():
        assert (tmp_path / folder / name).read_bytes() == content
    assert len(archive.namelist()) == len(FILES)


def test_the_same_book_gives_the_same_archive(tmp_path):
    one = book(tmp_path / "one", FILES)
    other = book(tmp_path / "other", reversed(FILES))
    os.utime(other / "index.html", (1, 1_000_000_000))
    (other / "index.html").chmod(0o600)
    pack(one, tmp_path / "one.zip")
    pack(other, tmp_path / "other.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()


def test_without_a_book_it_says_what_to_do(tmp_path):
    with pytest.raises(SystemExit, match="run make book"):
        pack(tmp_path, tmp_path / "book.zip")
