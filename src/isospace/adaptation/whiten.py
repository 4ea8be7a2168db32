"""`isospace whiten`: put a map behind an encoder, without training its weights.

Validation pairs select the power, and test pairs (`pairs`, or held-out text) test it. With too few
pairs to split, the same pairs select and test, and the verdict's interval is wider. The results are
stored as whitening.json, and described in a model card.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from typing import ClassVar

import torch

from isospace.adaptation.candidates import (
    BASE_MODEL,
    Candidate,
    CandidateEncoders,
    MapChoice,
    Maps,
    SharedEncoder,
    refusing,
    why_too_few_pairs,
)
from isospace.adaptation.fitting import FITTED_ON, FittedMap
from isospace.config import By, ModelAndText, Power, TrainConfig, WhitenConfig
from isospace.encoders.saving import save_model
from isospace.errors import UserError
from isospace.evaluation.benchmark import BASE
from isospace.evaluation.other_text import other_text_scores, require_other_text
from isospace.evaluation.pairs import TextPairs
from isospace.evaluation.retrieval import evaluate_retrieval
from isospace.evaluation.sts import sts_data
from isospace.objectives.base import Paper
from isospace.operators.fitted_whitening import Moments, PairMoments, Whitening
from isospace.operators.flow import Flow, fit_flow
from isospace.recipes import find
from isospace.statistics.selection import SelectedAmong, best_position
from isospace.statistics.verdict import VerdictKind
from isospace.system import typed_json
from isospace.system.devices import default_device
from isospace.system.files import atomic_folder, require_new
from isospace.system.lifecycle import stoppable
from isospace.system.progress import Logged, Progress
from isospace.system.signals import launched
from isospace.system.tables import markdown_table
from isospace.training.card import CLASSIC, Usage, heading, usage_of
from isospace.training.prepare import Data, load_data
from isospace.training.results import BeforeAndAfter, Origin
from isospace.training.train import ModelScores

FILE = "whitening.json"

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
        whitened: true if the folder holds the whitened model, false for the unchanged model.
        gap: largest 1 - cosine between the vectors of the folder and those of the model in memory.
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
            title = f"selection of the power: validation MRR x 100, {self.selected_on}"
            tables.insert(0, (title, [row]))
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


def whiten_model(config: WhitenConfig, progress: Progress | None = None) -> WhiteningResults:
    """Whiten a model on a corpus, test it against the base model, and write the better one.

    With `power="auto"`, the whitened model is written only if the verdict is a gain; otherwise the
    base model is written. A model with a given power or width is written in any case.

    Raises:
        UserError: the input is invalid; most errors come before the corpus is encoded.
    """
    progress = progress or Logged()
    with stoppable(lambda: "run the same command again"):
        folder = require_new(config.output)
        encoders, data, validation = _load(config, progress)
        tried = _candidates(config, encoders, progress)
        results = _select_and_test(config, encoders, data, validation, tried)
        encoder = encoders.shipped(tried[results.power] if results.whitened else BASE_MODEL)
        del encoders  # a large model is loaded once more to check the folder
        with atomic_folder(folder) as building:
            card = model_card(results, usage_of(encoder))
            results = replace(results, gap=save_model(encoder, building, card, replace=False))
            typed_json.write(building / FILE, results)
        return results


def _load(config: WhitenConfig, progress: Progress) -> tuple[CandidateEncoders, Data, TextPairs]:
    """Load model, text and validation pairs; refuse a model that cannot be whitened."""
    if launched():
        raise UserError("whiten runs in one process; start it without a launcher")
    require_other_text(config.other_text, config.text.corpus)
    own = {one.name: getattr(config, one.name) for one in fields(ModelAndText)}
    settings = replace(find("pairs").config, **own | {"data": sts_data(config.data)})
    data = load_data(settings, trains=False)
    progress.line("corpus", data.corpus.summary)
    validation = data.held_out.pairs if data.benchmark.split else data.benchmark.pairs
    if config.power == "auto" and len(validation) < 2:
        raise UserError(
            "`power` auto: too little text to select a power (sentences of 8 words or more are "
            "cut in halves). Give more text, or a power such as `power` 0.25"
        )
    by, count = _fitted_by(config, settings, data)
    if by == "texts":  # `adapt` cuts pairs alone
        settings = replace(settings, max_length=None)
    shared = SharedEncoder(settings, progress, trains=False)
    encoder, is_flow = shared.encoder, config.whitening.kind == "flow"
    if encoder.is_frozen and is_flow:
        raise UserError(
            f"`kind` flow: the vectors of {config.model} come from a server, and only a "
            "linear map can be added. Give another `kind`"
        )
    with refusing():
        config.whitening.require(encoder.dim)
        if is_flow:
            Flow(encoder.dim)
    progress.line("encoder", encoder.summary("float32"))
    if encoder.prompts.summary:
        progress.line("prompts", encoder.prompts.summary)
    encoders = CandidateEncoders(settings, data.corpus, shared, Maps((), None, by), count)
    if encoder.is_frozen:
        encoder.expect((*encoders.fit_texts, *validation.asked, *data.asked), progress)
    return encoders, data, validation


def _fitted_by(config: WhitenConfig, settings: TrainConfig, data: Data) -> tuple[By, int]:
    """Return what the map is fitted on, single texts if there are too few pairs, and how many."""
    if config.whitening.kind == "flow":  # which is trained, and on all texts
        return "texts", config.sentences or len(data.corpus)
    if config.by != "texts":
        too_few = why_too_few_pairs(settings, data.corpus)
        if not too_few:
            return "pairs", config.sentences or FITTED_ON
        if config.by == "pairs":
            raise UserError(
                f"`by` pairs: {too_few}. Give documents, or name the columns of pairs (`columns`)"
            )
    return "texts", config.sentences or 2 * FITTED_ON


def _candidates(
    config: WhitenConfig, encoders: CandidateEncoders, progress: Progress
) -> dict[Power, Candidate]:
    """Return a candidate for each power that the settings try."""
    by, whitening = encoders.maps.by, config.whitening
    flow: Flow | None = None
    if whitening.kind == "flow":
        texts = torch.from_numpy(encoders.vectors(0.0)[0]).to(default_device())
        with progress.bar("flow", len(texts)) as advance, refusing():
            flow = fit_flow(texts, advance)

    def fit(moments: Moments | PairMoments, power: float) -> FittedMap:
        if flow is not None:
            return flow
        if isinstance(moments, PairMoments):
            return moments.fit(power, whitening)
        return whitening.fit(moments, power)

    def candidate(power: Power) -> Candidate:
        own = 1.0 if power == "flow" else power
        return BASE_MODEL if own is None else Candidate(change=MapChoice("whitened", own, fit))

    return {power: candidate(power) for power in config.powers(by)}


def _select_and_test(
    config: WhitenConfig,
    encoders: CandidateEncoders,
    data: Data,
    validation: TextPairs,
    tried: Mapping[Power, Candidate],
) -> WhiteningResults:
    """Select a power on validation pairs, and test it on test pairs."""
    benchmark, base = data.benchmark, encoders.encode(BASE_MODEL)
    encode = {None: base, **{power: encoders.encode(one) for power, one in tried.items()}}
    among, power, mrr = None, next(iter(tried)), dict[Power, float]()
    if len(tried) > 1:
        ranks = {power: evaluate_retrieval(own, validation) for power, own in encode.items()}
        mrr = {power: ranks[power].mrr for power in tried}
        power = list(mrr)[best_position(list(mrr.values()))]
        if not benchmark.split:
            scores = {name: benchmark.pair_scores(found) for name, found in ranks.items()}
            among = SelectedAmong.named(scores, power)
    weight = benchmark.select_weight(base, data.held_out)
    before = ModelScores.measure(base, data, weight)
    after, other_text = before, {}
    if power is not None:
        after = ModelScores.measure(encode[power], data, weight)
        other_text = other_text_scores(before.other_text, after.other_text)
    kept = "no power has a higher validation MRR" if power is None else None
    verdict = benchmark.verdict(before.measured, after.measured, kept, among)
    return WhiteningResults(
        isospace=version("isospace"),
        model=config.model,
        pooling=encoders.encoder.pooling,
        by=encoders.maps.by,
        whitening=config.whitening,
        sentences=len(encoders.fit_texts[0][1]),
        corpus=data.corpus.digest,
        candidates={name_of(power): own for power, own in mrr.items()},
        selected_on=f"{len(validation):,} {validation.name}",
        power=power,
        base=before.measured.scores,
        adapted=after.measured.scores,
        verdict=verdict,
        with_bm25=benchmark.bm25_gains(before.measured, after.measured, among),
        other_text=other_text,
        # A given power is always written; a selected power only with a gain.
        whitened=None not in tried or verdict.kind is VerdictKind.ADAPTED,
        gap=0.0,
    )
