"""Layers composed to models."""

from transformer_core.models.bert import Bert
from transformer_core.models.decoder import Decoder
from transformer_core.models.decoding import beam_search, greedy_search
from transformer_core.models.encoder import Encoder
from transformer_core.models.encoder_decoder import EncoderDecoder
from transformer_core.models.stack_spec import StackSpec

__all__ = [
    "Bert",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "StackSpec",
    "beam_search",
    "greedy_search",
]
