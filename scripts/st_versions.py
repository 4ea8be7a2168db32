"""Load exported folders under old and new sentence-transformers and compare the vectors.

python scripts/st_versions.py [RUN_OR_MODEL ...]

Makes a virtual environment for each row of `ENVIRONMENTS` (in build/st-versions, kept for the next
time), exports every model with the isospace that is installed here, loads the same folder in each
environment, where isospace is not installed, and prints the largest 1 - cosine to the vectors of
the model that was exported. Exit status 1 where one is above isospace's tolerance.

Without arguments the models are variants of all-MiniLM-L6-v2 that cover what a folder can hold,
and a BERT with random weights and a tokenizer of no family, as many models on the Hub have.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from isospace.encoders.encoder import PROBES, Encoder
from isospace.encoders.loading import load_encoder
from isospace.encoders.saving import TOLERANCE, cosines, save_model
from isospace.encoders.settings import EncoderSettings

ENVIRONMENTS = {
    "3": ("torch==2.13.0", "sentence-transformers==3.*", "transformers==4.*"),
    "5.1": ("torch==2.13.0", "sentence-transformers==5.1.*", "transformers==4.*"),
    "newest": ("torch==2.13.0", "sentence-transformers"),
}
HOME = Path(__file__).parent.parent / "build" / "st-versions"

ENCODE = """
import json, os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np, sentence_transformers, transformers
from sentence_transformers import SentenceTransformer
texts, folders = json.load(sys.stdin)
for folder in folders:
    model = SentenceTransformer(folder, device="cpu")
    np.save(sys.argv[1] + "/" + os.path.basename(folder), model.encode(texts))
print(sentence_transformers.__version__, transformers.__version__)
"""


def main(names: list[str]) -> int:
    """Export, load everywhere, compare; returns the exit status."""
    disable_progress_bar()
    chosen = [(f"{i}-{Path(name).name}", load_encoder(name)) for i, name in enumerate(names, 1)]
    with tempfile.TemporaryDirectory() as scratch:
        vectors: dict[str, np.ndarray] = {}
        for name, encoder in chosen or variants(Path(scratch)):
            save_model(encoder, Path(scratch, "folders", name))
            vectors[name] = encoder.embed(PROBES)
        return max([compare(key, Path(scratch), vectors) for key in ENVIRONMENTS])


def variants(scratch: Path) -> Iterator[tuple[str, Encoder]]:
    """Models that cover the parts of a folder."""
    yield "minilm", load_encoder("minilm", device="cpu")
    for pooling in ("cls", "first_last", "embedding_last", "last2"):
        yield f"minilm-{pooling}", load_encoder("minilm", EncoderSettings(pooling=pooling), "cpu")
    whitened = load_encoder("minilm", device="cpu")
    torch.manual_seed(0)
    dense = Dense(384, 128, activation_function=nn.Identity())
    *parts, normalise = whitened.model
    whitened.model = SentenceTransformer(modules=[*parts, dense, normalise], device="cpu")
    yield "minilm-dense", whitened
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "one": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 2)]
    )
    config = BertConfig(vocab_size=4, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)
    BertModel(config).save_pretrained(scratch / "bert")
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        extra_special_tokens=["[CLS]"],
        model_max_length=64,
    ).save_pretrained(scratch / "bert")
    yield "random-bert", load_encoder(str(scratch / "bert"), device="cpu")


def compare(key: str, scratch: Path, vectors: dict[str, np.ndarray]) -> int:
    """Encode in one environment and print a line for every model; 1 where one differs."""
    python = environment(key)
    results = scratch / key
    results.mkdir()
    child = subprocess.run(
        [python, "-W", "ignore", "-c", ENCODE, str(results)],
        input=json.dumps([PROBES, [str(scratch / "folders" / name) for name in vectors]]),
        capture_output=True,
        encoding="utf-8",
    )
    if child.returncode:
        sys.stdout.write(f"{key}: {child.stderr}\n")
        return 1
    st, transformers = child.stdout.split()[-2:]
    gaps = {name: gap_to(ours, results / f"{name}.npy") for name, ours in vectors.items()}
    for name, gap in gaps.items():
        versions = f"sentence-transformers {st}, transformers {transformers}"
        sys.stdout.write(f"{versions}: {name:<22} 1 - cosine <= {gap:.1e}\n")
    return int(not all(gap <= TOLERANCE for gap in gaps.values()))


def gap_to(ours: np.ndarray, theirs: Path) -> float:
    """The largest 1 - cosine between the model's vectors and those of a file."""
    return float(np.max(1.0 - cosines(ours, np.load(theirs))))


def environment(key: str) -> str:
    """The interpreter of an environment, which is made where it does not exist yet."""
    folder = HOME / key
    python, done = folder / "bin" / "python", folder / "installed"
    wanted = "\n".join(ENVIRONMENTS[key])
    if not done.is_file() or done.read_text(encoding="utf-8") != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", *ENVIRONMENTS[key]]
        subprocess.run(install, check=True)
        done.write_text(wanted, encoding="utf-8")
    return str(python)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
