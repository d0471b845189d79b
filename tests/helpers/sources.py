"""Code that has a source, as a reader's has."""

import linecache


def run_with_source(code: str, space: dict) -> None:
    """Run code in a namespace; its functions have their lines, as those of a file have."""
    file = f"<{hash(code)}>"
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    exec(compile(code, file, "exec"), space)
