"""Which part of many equal tests is run: SHARE=1/3 chooses a third of them."""

import os
import re


def chosen(names):
    """Those of the share, in their order; all of them where none is asked for."""
    asked = os.environ.get("SHARE", "1/1")
    found = re.fullmatch(r"([1-9]\d*)/(\d+)", asked)
    part, parts = map(int, found.groups()) if found else (1, 0)
    if part > parts:
        raise ValueError(f"expected SHARE to be like 1/3, the first of three parts, got {asked!r}")
    return list(names)[part - 1 :: parts]
