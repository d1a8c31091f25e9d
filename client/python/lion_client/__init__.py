"""Client of a LION inference server.

    from lion_client import Client

    with Client("localhost:8001") as client:
        vectors = client.embed(["a cat sleeps", "the cat naps"]).vectors
"""

from .aio import AsyncClient
from .bulk import BulkOptions
from .client import Client
from .connection import Tls
from .errors import LionError
from .inputs import InputLike, Pixels, TextPair, TokenIds
from .options import ImageOptions
from .results import (ClassifyResult, ClassScore, EmbedResponse, EmbedResult, FillMaskResult, MaskPrediction, Model,
                      Response, Timing, Token, TokenizeResult, TokenPrediction)
from .retry import NO_RETRIES, RetryPolicy

__version__ = "0.1.0"
__all__ = [
    "AsyncClient", "BulkOptions", "ClassScore", "ClassifyResult", "Client", "EmbedResponse", "EmbedResult",
    "FillMaskResult", "ImageOptions", "InputLike", "LionError", "MaskPrediction", "Model", "NO_RETRIES", "Pixels",
    "Response", "RetryPolicy", "TextPair", "Timing", "Tls", "Token", "TokenIds", "TokenPrediction", "TokenizeResult",
]
