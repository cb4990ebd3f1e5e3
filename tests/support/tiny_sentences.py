"""A sentence encoder of sentence-transformers with random weights, small enough to make."""

import pytest
import torch
from word_sums import OPENINGS, THINGS

WIDTH = 16


def sentence_model(folder, *more):
    """The model, and the folder that it was saved in, with a card that names a licence.

    ``more`` are further modules.
    """
    library = pytest.importorskip("sentence_transformers")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    transformers = pytest.importorskip("transformers")
    words = sorted({w for opening in OPENINGS for w in opening.split()} | {"and"})
    words += [thing for things in THINGS.values() for thing in things]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    known = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = transformers.BertTokenizer(vocab=known, model_max_length=32)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        initializer_range=0.5,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bert = transformers.BertModel(config)
    bare = folder / "bare"
    tokenizer.save_pretrained(bare)
    bert.save_pretrained(bare)
    parts = [modules.Transformer(str(bare)), modules.Pooling(WIDTH, "mean"), *more]
    model = library.SentenceTransformer(modules=parts, device="cpu")
    model.save(str(folder / "model"), create_model_card=False)
    card = "---\nlanguage: en\nlicense: 'mit'\n---\n\n# Tiny words\n\nA model.\n"
    (folder / "model" / "README.md").write_text(card)
    return model, folder / "model"
