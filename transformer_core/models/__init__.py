"""Layers composed into models."""

from transformer_core.models.bert import Bert
from transformer_core.models.bert_encoder import BertEncoder
from transformer_core.models.classifier import Classifier
from transformer_core.models.decoding import beam_search, greedy_search
from transformer_core.models.encoder_decoder import EncoderDecoder
from transformer_core.models.gpt import Gpt
from transformer_core.models.sampling import Sampling, sample
from transformer_core.models.speculative import speculative_sample
from transformer_core.models.stack import Decoder, Encoder
from transformer_core.models.stack_spec import StackSpec

__all__ = sorted(name for name, value in globals().items() if callable(value))
