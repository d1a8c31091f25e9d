"""Cuts a WordPiece vocabulary down to what a corpus needs.

The least used pieces go first, a share at a time; the words that they made then fall to shorter pieces, whose use is
counted anew. Order is kept, so that special tokens stay where they were relative to each other.
"""

import collections

from tokenizers import BertWordPieceTokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# Single characters that stay whether or not the corpus has them: Latin, Greek, punctuation, currency, arrows, signs.
KEPT_CHARACTERS = (range(0x0, 0x400), range(0x2000, 0x2C00))


def is_kept(piece):
    character = piece.removeprefix("##")
    return piece in SPECIAL or len(character) == 1 and any(ord(character) in block for block in KEPT_CHARACTERS)


def count_words(texts, tokenizer):
    """How often each word stands in the texts, after the tokenizer's normalisation."""
    counts = collections.Counter()
    for text in texts:
        text = tokenizer.normalizer.normalize_str(text)
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text))
    return counts


def count_pieces(words, pieces):
    tokenizer = BertWordPieceTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, lowercase=True)
    counts = collections.Counter()
    for (_, times), encoding in zip(words.items(), tokenizer.encode_batch(list(words), add_special_tokens=False)):
        for piece in encoding.tokens:
            counts[piece] += times
    return counts


def cut(pieces, texts, size, share=0.15):
    """The `size` pieces to keep, in their old order."""
    tokenizer = BertWordPieceTokenizer(vocab={piece: i for i, piece in enumerate(pieces)}, lowercase=True)
    words = count_words(texts, tokenizer)
    while len(pieces) > size:
        counts = count_pieces(words, pieces)
        target = max(size, int(len(pieces) * (1 - share)))
        kept = set(sorted(pieces, key=lambda piece: (not is_kept(piece), -counts[piece]))[:target])
        pieces = [piece for piece in pieces if piece in kept]
    return pieces
