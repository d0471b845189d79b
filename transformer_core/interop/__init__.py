"""Other people's weights and programs: folders as ``transformers`` writes them, and a doctor.

Reading needs the packages ``safetensors`` and ``tokenizers`` of the extra "train". On the command
line: ``python -m transformer_core.interop --help``.
"""

from transformer_core.interop.compare import Finding, compare
from transformer_core.interop.folder import load, rows_of, save
from transformer_core.interop.parity import parity
from transformer_core.interop.recorder import Recorder
from transformer_core.interop.recording import (
    read_recording,
    record,
    record_folder,
    write_recording,
)

__all__ = [
    "Finding",
    "Recorder",
    "compare",
    "load",
    "parity",
    "read_recording",
    "record",
    "record_folder",
    "rows_of",
    "save",
    "write_recording",
]
