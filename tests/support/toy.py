"""Tiny encoders with random weights, texts for them, and a short run on them."""

import csv
import json
import random
import re
import string

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from isospace.config import CorpusConfig, TrainConfig
from isospace.objectives import WhitenedCSE

WORDS = """
the cat dog sat on mat big red house runs fast tensor returns array value shape
of a an in each over under small blue green tree river city light night day
morning walks reads writes opens file model learns words without labels from
text many few old new good
""".split()
"""The words that tiny encoders know."""


def tiny_tokenizer(length=64):
    """Return a WordPiece tokenizer that knows `WORDS`, letters and digits."""
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
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=length,
    )


def byte_pairs(*special):
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    settings = {"vocab_size": 400, "initial_alphabet": letters, "show_progress": False}
    trainer = trainers.BpeTrainer(**settings, special_tokens=list(special))
    pairs.train_from_iterator(sentences(100), trainer)
    return pairs


def write_toy_model(folder, *, length=64, masked_words=False, **sizes):
    """Write a Hugging Face BERT with 3 layers of 32 dimensions and random weights.

    `length` is the number of tokens of the longest text, and `sizes` replace settings of
    `BertConfig`. With `masked_words` the model has a head for masked words.
    """
    sizes = {"max_position_embeddings": length, **sizes}
    return _write(folder, tiny_tokenizer(length), transformers.BertConfig, masked_words, sizes)


def write_toy_roberta(folder, *, length=64, masked_words=False, **sizes):
    """Write a RoBERTa of the same size, with byte pairs and a tokenizer of its family.

    The arguments are those of `write_toy_model`.
    """
    learned = json.loads(byte_pairs("<s>", "<pad>", "</s>", "<unk>", "<mask>").to_str())["model"]
    words = {"vocab": learned["vocab"], "merges": [tuple(pair) for pair in learned["merges"]]}
    tokenizer = transformers.RobertaTokenizer(**words, model_max_length=length)
    # Positions are counted from 2 on.
    sizes = {"max_position_embeddings": length + 2, "type_vocab_size": 1, **sizes}
    return _write(folder, tokenizer, transformers.RobertaConfig, masked_words, sizes)


def _write(folder, tokenizer, settings, masked_words, sizes):
    """Write a model with random weights, and its tokenizer."""
    torch.manual_seed(0)
    usual = {"vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64}
    usual |= {"num_hidden_layers": 3, "num_attention_heads": 4}
    kind = transformers.AutoModelForMaskedLM if masked_words else transformers.AutoModel
    kind.from_config(settings(**{**usual, **sizes})).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def sentences(count, seed=0):
    """Return distinct random sentences of known words."""
    source = random.Random(seed)
    made = {}
    while len(made) < count:
        made[" ".join(source.choices(WORDS, k=source.randint(8, 14)))] = None
    return list(made)


def write_documents(folder, count=60):
    """Write Markdown of known words: a title, two headings, a passage under each."""
    folder.mkdir()
    draw = random.Random(0)

    def sentence(words=9):
        return " ".join(draw.choices(WORDS, k=words)).capitalize() + "."

    for number in range(count):
        title = f"{sentence(4)[:-1]} {number}"
        parts = [f"# {title}\n"]
        for part in range(2):
            heading = f"## {sentence(3)[:-1]} {number} {part}"
            parts += [heading, "", f"{title} {sentence()} {sentence()} {sentence()}", ""]
        (folder / f"{number}.md").write_text("\n".join(parts))
    return folder


def write_toy_cross_encoder(folder, toy):
    """A cross-encoder of the size and vocabulary of the toy, with random weights."""
    torch.manual_seed(1)
    config = transformers.BertConfig.from_pretrained(toy, num_labels=1)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def short_run(model, corpus, output):
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


def write_toy_t5(toy_model, folder):
    """T5's encoder, half of a model that transformers' `AutoModel` would make whole."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(toy_model)
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    sizes |= {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    transformers.T5EncoderModel(transformers.T5Config(**sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def run_card(folder, having=""):
    """Run the code on a model's card that has these words, as it stands; return its names."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    [code] = [one for one in re.findall(r"```python\n(.*?)```", card, re.DOTALL) if having in one]
    names = {}
    code = code.replace("path/to/this/folder", str(folder))
    exec(code.replace("path/to", str(folder.parent)), names)
    return names


def write_rows(path, rows):
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
