"""Layers composed to models."""

from transformer_core.models.bert import Bert
from transformer_core.models.encoder import Encoder
from transformer_core.models.encoder_decoder import EncoderDecoder

__all__ = ["Bert", "Encoder", "EncoderDecoder"]
