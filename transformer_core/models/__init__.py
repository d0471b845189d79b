"""Layers composed to models."""

from transformer_core.models.bert import Bert
from transformer_core.models.decoding import beam_search, greedy_search
from transformer_core.models.encoder import Encoder
from transformer_core.models.encoder_decoder import EncoderDecoder

__all__ = ["Bert", "Encoder", "EncoderDecoder", "beam_search", "greedy_search"]
