"""The built book as one archive, to be opened from a folder: ``python book/_ext/archive.py``.

The same book gives the same archive, byte by byte.
"""

import sys
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

NAME = "transformers-by-hand"
DATE = (2026, 1, 1, 0, 0, 0)  # of every file in the archive


def pack(folder, path):
    """Write the files of a folder into an archive, in a folder of its name."""
    if not (folder / "index.html").exists():
        raise SystemExit(f"no book in {folder}: run make book")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    with ZipFile(path, "w") as archive:
        for file in files:
            name = f"{NAME}/{file.relative_to(folder).as_posix()}"
            entry = ZipInfo(name, DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes(), ZIP_DEFLATED)


if __name__ == "__main__":
    build = Path(sys.argv[1] if len(sys.argv) > 1 else "_build")
    archive = build / f"{NAME}.zip"
    pack(build / "html", archive)
    print(f"{archive}: {archive.stat().st_size / 1e6:.1f} MB")
