"""Tiny encoders with random weights, texts for them, and a short run on them."""

import csv
import json
import random
import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaModel,
    RobertaTokenizer,
    T5Config,
    T5EncoderModel,
)

from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import WhitenedCSE

WORDS = """
the cat dog sat on mat big red house runs fast tensor returns array value shape
of a an in each over under small blue green tree river city light night day
morning walks reads writes opens file model learns words without labels from
text many few old new good
""".split()
"""The words that tiny encoders know."""


def tiny_tokenizer(length: int = 64) -> PreTrainedTokenizerFast:
    """Return a WordPiece tokenizer that knows `WORDS`, letters and digits.

    `length` is the number of tokens of the longest text.
    """
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [
        prefix + c for c in string.ascii_lowercase + string.digits for prefix in ("", "##")
    ]
    known = sorted({*special, *WORDS, *characters}, key=lambda token: (token not in special, token))
    vocab = {token: i for i, token in enumerate(known)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=length,
    )


def byte_pairs(*special: str) -> Tokenizer:
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    settings = {"vocab_size": 400, "initial_alphabet": letters, "show_progress": False}
    pairs.train_from_iterator(
        sentences(100), trainers.BpeTrainer(**settings, special_tokens=list(special))
    )
    return pairs


def write_toy_model(
    folder: Path, *, length: int = 64, masked_words: bool = False, **sizes: Any
) -> Path:
    """Write a Hugging Face BERT with 3 layers of 32 dimensions and random weights.

    Args:
        folder: the folder to write.
        length: number of tokens of the longest text.
        masked_words: write a head for masked words too.
        sizes: settings of `BertConfig` that replace the usual ones.
    """
    kind = BertForMaskedLM if masked_words else BertModel
    sizes = {"max_position_embeddings": length, **sizes}
    return _write_model(folder, tiny_tokenizer(length), BertConfig, kind, sizes)


def write_toy_roberta(
    folder: Path, *, length: int = 64, masked_words: bool = False, **sizes: Any
) -> Path:
    """Write a RoBERTa of the same size, with byte pairs and a tokenizer of its family.

    The arguments are those of `write_toy_model`.
    """
    pairs = byte_pairs("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    learned = json.loads(pairs.to_str())["model"]
    merges: Any = [tuple(pair) for pair in learned["merges"]]  # the stub says strings
    tokenizer = RobertaTokenizer(vocab=learned["vocab"], merges=merges, model_max_length=length)
    kind = RobertaForMaskedLM if masked_words else RobertaModel
    # Positions are counted from 2 on.
    sizes = {"max_position_embeddings": length + 2, "type_vocab_size": 1, **sizes}
    return _write_model(folder, tokenizer, RobertaConfig, kind, sizes)


def _write_model(folder: Path, tokenizer: Any, settings: Any, kind: Any, sizes: Any) -> Path:
    """Write a model of the class `kind` with random weights, and its tokenizer."""
    torch.manual_seed(0)
    usual = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
    }
    kind(settings(**{**usual, **sizes})).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sentences(count: int, seed: int = 0) -> list[str]:
    """Return distinct random sentences of known words."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        made[" ".join(source.choices(WORDS, k=source.randint(8, 14)))] = None
    return list(made)


def write_documents(folder: Path, count: int = 60) -> Path:
    """Write Markdown of known words: a title, two headings, a passage under each."""
    folder.mkdir()
    draw = random.Random(0)

    def sentence(words: int = 9) -> str:
        return " ".join(draw.choices(WORDS, k=words)).capitalize() + "."

    for number in range(count):
        title = f"{sentence(4)[:-1]} {number}"
        parts = [f"# {title}\n"]
        for part in range(2):
            heading = f"## {sentence(3)[:-1]} {number} {part}"
            passage = f"{title} {sentence()} {sentence()} {sentence()}"
            parts += [heading, "", passage, ""]
        (folder / f"{number}.md").write_text("\n".join(parts))
    return folder


def write_toy_cross_encoder(folder: Path, toy: Path) -> Path:
    """A cross-encoder of the size and vocabulary of the toy, with random weights."""
    torch.manual_seed(1)
    model = BertForSequenceClassification(BertConfig.from_pretrained(toy, num_labels=1))
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def short_run(model: Path, corpus: Path | str, output: Path | None) -> TrainConfig:
    """A run of 20 updates."""
    return TrainConfig(
        text=CorpusConfig(corpus=(str(corpus),), near_duplicates=False),
        objective=WhitenedCSE(),
        model=str(model),
        batch_size=16,
        budget=(320, "sentences"),
        learning_rate=1e-3,
        evaluations=2,
        output=output,
        select="last",
    )


def write_toy_t5(toy_model: Path, folder: Path) -> Path:
    """T5's encoder, half of a model that transformers' `AutoModel` would make whole."""
    tokenizer = AutoTokenizer.from_pretrained(toy_model)
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = T5Config(**sizes, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    T5EncoderModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_card(folder: Path, having: str = "") -> dict[str, Any]:
    """Run the code on a model's card that has these words, as it stands; return its names."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    [code] = [one for one in re.findall(r"```python\n(.*?)```", card, re.DOTALL) if having in one]
    names: dict[str, Any] = {}
    code = code.replace("path/to/this/folder", str(folder))
    exec(code.replace("path/to", str(folder.parent)), names)
    return names


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write rows in the format of the file's ending: jsonl, csv, tsv or parquet."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), path)
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, names, delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writeheader()
            table.writerows(rows)
    return path
