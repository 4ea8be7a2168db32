"""Whitening of any trained encoder: fit on a corpus, select the power, test, fold, save.

Whitening needs no labels but three disjoint sets of text: sentences or pairs to fit on, validation
pairs that select the power, and test pairs (`pairs`, or held-out text). With too few pairs to
split, the same pairs select and test, and the verdict's interval is wider. The map is fitted on
pooled vectors before the encoder's final L2 normalisation; a new normalisation follows the map.

The results are stored as whitening.json, and described in a model card.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from numpy.typing import NDArray

from isospace.config import By, ModelAndText, Power, TrainConfig, WhitenConfig
from isospace.corpus.corpus import Corpus
from isospace.corpus.relations import FEW_PAIRS
from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.saving import TOLERANCE, parity_of_sides, require_classic, save_model
from isospace.encoders.settings import Side
from isospace.errors import UserError
from isospace.evaluation.benchmark import BASE
from isospace.evaluation.other_text import other_text_scores, require_other_text
from isospace.evaluation.pairs import Encode, PromptedEncoders, TextPairs, cached, remembering
from isospace.evaluation.retrieval import RetrievalScores, evaluate_retrieval
from isospace.evaluation.sts import sts_data
from isospace.objectives.base import Paper
from isospace.operators.fitted_whitening import PairMoments, Whitening
from isospace.operators.flow import Flow, fit_flow
from isospace.recipes import find
from isospace.statistics.selection import SelectedAmong, best_position
from isospace.statistics.verdict import VerdictKind
from isospace.system import typed_json
from isospace.system.devices import (
    STDIN_IS_OF_ONE,
    arithmetic,
    default_device,
    join_processes,
)
from isospace.system.files import atomic_folder, cache_folder, require_new
from isospace.system.lifecycle import stoppable
from isospace.system.progress import Logged, Progress, Silent
from isospace.system.tables import markdown_table
from isospace.training.card import CLASSIC, Usage, heading, usage_of
from isospace.training.examples import related_texts
from isospace.training.prepare import Data, base_encoder, load_data
from isospace.training.results import BeforeAndAfter, Origin
from isospace.training.train import ModelScores
from isospace.whiten.fitting import (
    FITTED_ON,
    FittedMap,
    drop_normalize,
    encoded_to_fit,
    fit_texts,
    fold,
    moments_of,
    through,
)

FILE = "whitening.json"

_COMPARED = 100  # held-out sentences to verify that the folder gives the measured vectors

Maps: TypeAlias = Mapping[Power, FittedMap | None]
"""Power -> fitted map; `None` for the unchanged model."""
T = TypeVar("T")

_PAPERS = {
    "texts": Paper("su-etal-2021-whitening"),
    "pairs": Paper("radenovic-etal-2019-fine"),
    "flow": Paper("li-etal-2020-sentence"),
}
"""Kind of map -> its publication."""


def name_of(power: Power) -> str:
    """Return the description of a power."""
    if power is None:
        return BASE
    return power if isinstance(power, str) else f"power {power:g}"


@dataclass(frozen=True)
class WhiteningResults(BeforeAndAfter):
    """Results of a whitening, stored as whitening.json in the model's folder.

    Attributes:
        sentences: number of sentences or pairs that the map was fitted on.
        candidates: `name_of(power)` -> MRR on the validation pairs; empty if the user gave a power.
        selected_on: description of the validation pairs.
        whitened: true if the folder holds the whitened model, false for the unchanged model.
        gap: largest 1 - cosine between the folder's vectors and the measured vectors.
    """

    isospace: str
    model: str
    pooling: str
    by: By
    whitening: Whitening
    sentences: int
    corpus: str
    candidates: dict[str, float]
    selected_on: str
    power: Power
    whitened: bool
    gap: float
    format: int = 10

    adapted_model: ClassVar[str] = "whitened model"

    @property
    def ships_base(self) -> bool:
        """True if the folder holds the unchanged model."""
        return not self.whitened

    @property
    def written(self) -> str:
        """Sentence on the model in the folder."""
        if not self.whitened:
            return "The folder holds the base model."
        adapted = self.verdict.kind is VerdictKind.ADAPTED
        asked = "" if adapted else ", because the settings ask for it"
        return f"The folder holds the whitened model ({name_of(self.power)}){asked}."

    @property
    def text(self) -> str:
        """Sentences on the verdict, the other text, and the model in the folder."""
        return f"{self.summary} {self.written}"

    def tables(self) -> list[tuple[str, list[dict[str, str]]]]:
        """Return the titles and rows of the result tables."""
        rows = self.before_and_after("" if self.power is None else name_of(self.power), "model")
        tables = [(f"before and after, scores x 100 ({self.verdict.protocol})", rows)]
        if self.candidates:
            row = {name: f"{100 * mrr:.2f}" for name, mrr in self.candidates.items()}
            tables.insert(
                0, (f"selection of the power: validation MRR x 100, {self.selected_on}", [row])
            )
        return tables


def model_card(results: WhiteningResults, usage: Usage = CLASSIC) -> str:
    """Return the README.md of the folder; it quotes no text of the corpus."""
    tables = "\n\n".join(f"{title}:\n\n{markdown_table(rows)}" for title, rows in results.tables())
    title = f"whitened ({name_of(results.power)})" if results.whitened else "unchanged"
    origin = Origin.from_model(results.model)
    fitted = "pairs of texts" if results.by == "pairs" else "sentences"
    made, cited = "Tried, but not kept: a linear map fitted", ""
    if results.whitened:
        paper = _PAPERS["flow" if results.whitening.kind == "flow" else results.by]
        made, cited = "Fitted", f"\n```bibtex\n{paper.bibtex}\n```\n"
    return f"""{heading(origin, title, usage)}

{results.text}

{usage.text}

{tables}

- Base model: `{origin.name}`; pooling: {results.pooling}
- {made} on {results.sentences:,} {fitted} (none is quoted here), digest `{results.corpus}`:
  `{results.whitening}`
- Licence of the base model: {origin.licence_text}
{cited}"""


def whiten_model(config: WhitenConfig, progress: Progress | None = None) -> WhiteningResults | None:
    """Whiten a model on a corpus, test it against the base model, and write the better one.

    With `power="auto"`, the whitened model is written only if the verdict is a gain; otherwise the
    base model is written. A model with a given power or width is written in any case.
    All processes encode the texts to fit on. Every process except the first returns `None`.

    Raises:
        UserError: the input is invalid; most errors come before the corpus is encoded.
    """
    with stoppable(lambda: "run the same command again"):
        folder, accelerator = require_new(config.output), join_processes()
        shown = (progress or Logged()) if accelerator.is_main_process else Silent()
        task = _load(config, accelerator, shown)
        vectors = _vectors(task, accelerator, shown)
        results = None
        if accelerator.is_main_process:
            maps = _refusing(lambda: _fit(config, task.by, vectors, shown))
            results = _select_and_test(config, task, maps)
            with atomic_folder(folder) as building:
                gap = _write(task, results, maps[results.power], building)
                results = replace(results, gap=gap)
                typed_json.write(building / FILE, results)
        accelerator.wait_for_everyone()
        return results


@dataclass(frozen=True)
class _Task:
    """The model to whiten, without its final normalisation, and the texts.

    `by` says what the map is fitted on, and `fit_texts` are these texts with their sides: two
    sides of pairs, or single texts.
    """

    settings: TrainConfig
    encoder: Encoder
    encode: PromptedEncoders
    data: Data
    validation: TextPairs
    by: By
    fit_texts: Sequence[tuple[Side, list[str]]]


def _load(config: WhitenConfig, accelerator: Accelerator, progress: Progress) -> _Task:
    """Load model and text; refuse a model that cannot be whitened."""
    if "-" in config.text.corpus and accelerator.num_processes > 1:
        raise UserError(STDIN_IS_OF_ONE)
    require_other_text(config.other_text, config.text.corpus)
    shared = {one.name: getattr(config, one.name) for one in fields(ModelAndText)}
    settings = replace(find("pairs").config, **shared | {"data": sts_data(config.data)})
    with accelerator.main_process_first():
        encoder = base_encoder(settings).to(accelerator.device)
    require_one_way(encoder.prompts, config.model, "whitening")
    if not encoder.is_frozen:
        require_classic(encoder)
    elif config.whitening.kind == "flow":
        raise UserError(
            f"`kind` flow: the vectors of {config.model} come from a server or a file, and only a "
            "linear map can be added. Give another `kind`"
        )
    _refusing(lambda: config.whitening.require(encoder.dim))
    if config.whitening.kind == "flow":
        _refusing(lambda: Flow(encoder.dim))
    with accelerator.main_process_first():
        data = load_data(settings, trains=False)
    progress.line("corpus", data.corpus.summary)
    validation = data.held_out.pairs if data.benchmark.split else data.benchmark.pairs
    if config.power == "auto" and len(validation) < 2:
        raise UserError(
            "`power` auto: too little text to select a power (sentences of 8 words or more are "
            "cut in halves). Give more text, or a power such as `power` 0.25"
        )
    drop_normalize(encoder)
    progress.line("encoder", encoder.summary(arithmetic(accelerator)))
    by, count = _fitted_by(config, settings, data.corpus)
    texts = fit_texts(settings, data.corpus, by, count)
    if by == "texts":  # `adapt` cuts pairs alone
        settings = replace(settings, max_length=None)
    if encoder.is_frozen:
        encoder.expect((*texts, *validation.asked, *data.asked), progress)
    if encoder.prompts.summary:
        progress.line("prompts", encoder.prompts.summary)
    encode = remembering(cached(encoder, cache_folder(), progress=progress))
    return _Task(settings, encoder, encode, data, validation, by, texts)


def _fitted_by(config: WhitenConfig, settings: TrainConfig, corpus: Corpus) -> tuple[By, int]:
    """Return what the map is fitted on, single texts if there are too few pairs, and how many."""
    count = 2 * FITTED_ON
    if config.whitening.kind == "flow":  # which is trained, and on all texts
        count = len(corpus)
    elif config.by != "texts" and not config.why_not_pairs:
        found = len(related_texts(settings, corpus, FEW_PAIRS)[0])
        if found == FEW_PAIRS:
            return "pairs", config.sentences or FITTED_ON
        if config.by == "pairs":
            raise UserError(
                f"`by` pairs: whitening needs {FEW_PAIRS} pairs of different texts that belong "
                f"together, and the text gives {found}. Give documents, or name the columns of "
                "pairs (`columns`)"
            )
    return "texts", config.sentences or count


def _vectors(
    task: _Task, accelerator: Accelerator, progress: Progress
) -> list[NDArray[np.float32]]:
    """Encode a share of the texts in each process; return the vectors of each side, (n, dim)."""
    # Remembering, because a passage is in several pairs.
    encode = remembering(encoded_to_fit(task.encoder, task.settings, cache_folder(), progress))
    own = slice(accelerator.process_index, None, accelerator.num_processes)
    shares = gather_object([[encode.for_side(side)(texts[own]) for side, texts in task.fit_texts]])
    found = []
    for parts in zip(*shares, strict=True):
        every = np.empty((sum(map(len, parts)), task.encoder.dim), np.float32)
        for number, part in enumerate(parts):
            every[number :: len(parts)] = part
        found.append(every)
    return found


def _fit(
    config: WhitenConfig, by: By, vectors: Sequence[NDArray[np.float32]], progress: Progress
) -> Maps:
    """Fit a map for each power that the settings try, on the vectors of pairs or single texts."""
    whitening, powers = config.whitening, config.powers(by)
    if whitening.kind == "flow":
        texts = torch.from_numpy(vectors[0]).to(default_device())
        with progress.bar("flow", len(texts)) as advance:
            flow = fit_flow(texts, advance)
        return {power: None if power is None else flow for power in powers}
    moments = moments_of(vectors)

    def fit(power: float) -> FittedMap:
        if isinstance(moments, PairMoments):
            return moments.fit(power, whitening)
        return whitening.fit(moments, power)

    return {power: None if power is None else fit(float(power)) for power in powers}


def _refusing(work: Callable[[], T]) -> T:
    """Call a function, and turn a `ValueError` of operators into a `UserError`."""
    try:
        return work()
    except ValueError as error:
        raise UserError(str(error)) from error


def _select_and_test(config: WhitenConfig, task: _Task, maps: Maps) -> WhiteningResults:
    """Select a power on validation pairs, and test it on test pairs."""
    data, benchmark = task.data, task.data.benchmark
    ranks: dict[Power, RetrievalScores] = {}
    if len(maps) > 1:
        ranks = try_powers(task.encode, {None: None, **maps}, task.validation)
    tried = {power: found.mrr for power, found in ranks.items() if power in maps}
    power = list(tried)[best_position(list(tried.values()))] if tried else next(iter(maps))
    weight = benchmark.select_weight(task.encode, data.held_out)
    before = ModelScores.measure(task.encode, data, weight)
    after, other_text = before, {}
    if power is not None:
        after = ModelScores.measure(through(task.encode, maps[power]), data, weight)
        other_text = other_text_scores(before.other_text, after.other_text)
    kept = "no power has a higher validation MRR" if power is None else None
    among = None
    if ranks and not benchmark.split:
        scores = {name: benchmark.pair_scores(found) for name, found in ranks.items()}
        among = SelectedAmong.named(scores, power)
    verdict = benchmark.verdict(before.measured, after.measured, kept, among)
    return WhiteningResults(
        isospace=version("isospace"),
        model=config.model,
        pooling=task.encoder.pooling,
        by=task.by,
        whitening=config.whitening,
        sentences=len(task.fit_texts[0][1]),
        corpus=data.corpus.digest,
        candidates={name_of(power): mrr for power, mrr in tried.items()},
        selected_on=f"{len(task.validation):,} {task.validation.name}",
        power=power,
        base=before.measured.scores,
        adapted=after.measured.scores,
        verdict=verdict,
        with_bm25=benchmark.bm25_gains(before.measured, after.measured, among),
        other_text=other_text,
        # A given power is always written; a selected power only with a gain.
        whitened=None not in maps or verdict.kind is VerdictKind.ADAPTED,
        gap=0.0,
    )


def try_powers(encode: Encode, maps: Maps, pairs: TextPairs) -> dict[Power, RetrievalScores]:
    """Return power -> retrieval scores; pass an encoder that remembers its vectors."""
    return {
        power: evaluate_retrieval(through(encode, fitted), pairs) for power, fitted in maps.items()
    }


def _write(
    task: _Task, results: WhiteningResults, whitening: FittedMap | None, folder: Path
) -> float:
    """Write the model; return the largest 1 - cosine of its vectors to the measured ones."""
    texts = [*task.encoder.probes, *task.data.benchmark.sample[:_COMPARED]]
    whitening = whitening if results.whitened else None
    expected = through(task.encode, whitening)
    measured = {side: expected.for_side(side)(texts) for side in task.encoder.prompts.sides}
    encoder = task.encoder
    if whitening is None:
        encoder = base_encoder(task.settings)
    else:
        fold(encoder, whitening)
    card = model_card(results, usage_of(encoder))
    gap = save_model(encoder, folder, card, replace=False)
    if encoder.is_frozen:
        return gap
    return parity_of_sides(measured, folder, texts, encoder, TOLERANCE)
