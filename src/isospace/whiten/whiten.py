"""Whitening of any trained encoder: fit on a corpus, select the power, test, fold, save.

Whitening needs no labels but three disjoint sets of text: sentences or pairs to fit on, validation
pairs that select the power, and test pairs (`pairs`, or held-out text). With too few pairs to
split, the same pairs select and test, and the verdict's interval is wider. The map is fitted on
pooled vectors before the encoder's final L2 normalisation; a new normalisation follows the map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from accelerate import Accelerator

from isospace.config import TrainConfig
from isospace.encoders.encoder import Encoder
from isospace.encoders.modules import require_one_way
from isospace.encoders.parity import TOLERANCE
from isospace.encoders.saving import parity_of_sides, require_classic, save_model
from isospace.errors import UserError
from isospace.evaluation.other_text import other_text_scores, require_other_text
from isospace.evaluation.pairs import Encode, PromptedEncoders, TextPairs, remembering
from isospace.evaluation.retrieval import RetrievalScores, evaluate_retrieval
from isospace.evaluation.sts import sts_data
from isospace.evaluation.vector_cache import embed_with_bar
from isospace.operators.flow import Flow
from isospace.statistics.selection import SelectedAmong, best_position
from isospace.statistics.verdict import VerdictKind
from isospace.system.files import atomic_folder, require_new
from isospace.system.processes import STDIN_IS_OF_ONE, arithmetic, join_processes
from isospace.system.progress import Logged, Progress, Silent
from isospace.training.card import usage_of
from isospace.training.lifecycle import stoppable
from isospace.training.prepare import Data, base_encoder, load_data
from isospace.whiten.fitting import Fitted, Maps, fit_maps, fit_texts, refusing
from isospace.whiten.fold import FittedMap, drop_normalize, fold, through
from isospace.whiten.results import WhiteningResults, model_card, name_of, write_results
from isospace.whiten.whiten_config import Power, WhitenConfig

_COMPARED = 100  # held-out sentences to verify that the folder gives the measured vectors


def whiten_model(config: WhitenConfig, progress: Progress | None = None) -> WhiteningResults | None:
    """Whiten a model on a corpus, test it against the base model, and write the better one.

    With `power="auto"`, the whitened model is written only if the verdict is a gain; otherwise the
    base model is written. A model with a given power, width or removal is written in any case.
    Every process except the first returns `None`.

    Raises:
        UserError: the input is invalid; most errors come before the corpus is encoded.
    """
    with stoppable(lambda: "run the same command again"):
        folder, accelerator = require_new(config.output), join_processes()
        shown = (progress or Logged()) if accelerator.is_main_process else Silent()
        task = _load(config, accelerator, shown)
        fitted = fit_maps(config, task.data.corpus, task.encoder, accelerator, shown)
        results = None
        if fitted is not None:
            results = _select_and_test(config, task, fitted)
            with atomic_folder(folder) as building:
                gap = _write(task, results, fitted.maps[results.power], building)
                results = replace(results, gap=gap)
                write_results(building, results)
        accelerator.wait_for_everyone()
        return results


@dataclass(frozen=True)
class _Task:
    """The model to whiten, without its final normalisation, and the texts."""

    settings: TrainConfig
    encoder: Encoder
    encode: PromptedEncoders
    data: Data
    validation: TextPairs


def _load(config: WhitenConfig, accelerator: Accelerator, progress: Progress) -> _Task:
    """Load model and text; refuse a model that cannot be whitened."""
    if "-" in config.text.corpus and accelerator.num_processes > 1:
        raise UserError(STDIN_IS_OF_ONE)
    require_other_text(config.other_text, config.text.corpus)
    settings = TrainConfig(
        text=config.text,
        model=config.model,
        pooling=config.pooling,
        query_prompt=config.query_prompt,
        document_prompt=config.document_prompt,
        pairs=config.pairs,
        data=sts_data(config.data),
        other_text=config.other_text,
    )
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
    refusing(lambda: config.whitening.require(encoder.dim))
    if config.whitening.kind == "flow":
        refusing(lambda: Flow(encoder.dim))
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
    if encoder.is_frozen:
        asked = *fit_texts(config, data.corpus), *validation.asked, *data.asked
        encoder.expect(asked, progress)
    if encoder.prompts.summary:
        progress.line("prompts", encoder.prompts.summary)
    embed = partial(embed_with_bar, encoder, progress)
    encode = remembering(PromptedEncoders.of_prompts(encoder.prompts, embed))
    return _Task(settings, encoder, encode, data, validation)


def _select_and_test(config: WhitenConfig, task: _Task, fitted: Fitted) -> WhiteningResults:
    """Select a power on validation pairs, and test it on test pairs."""
    data, benchmark, maps = task.data, task.data.benchmark, fitted.maps
    ranks: dict[Power, RetrievalScores] = {}
    if len(maps) > 1:
        ranks = try_powers(task.encode, {None: None, **maps}, task.validation)
    tried = {power: found.mrr for power, found in ranks.items() if power in maps}
    power = list(tried)[best_position(list(tried.values()))] if tried else next(iter(maps))
    weight = benchmark.select_weight(task.encode, data.held_out)
    before = benchmark.measure(task.encode, weight)
    after, other_text = before, {}
    if power is not None:
        mapped = through(task.encode, maps[power])
        after = benchmark.measure(mapped, weight)
        other_text = other_text_scores(
            data.other_text.measure(task.encode, measured=before),
            data.other_text.measure(mapped, measured=after),
        )
    kept = "no power has a higher validation MRR" if power is None else None
    among = None
    if ranks and not benchmark.split:
        scores = {name: benchmark.pair_scores(found) for name, found in ranks.items()}
        among = SelectedAmong.named(scores, power)
    verdict = benchmark.verdict(before, after, kept, among)
    return WhiteningResults(
        isospace=version("isospace"),
        model=config.model,
        pooling=task.encoder.pooling,
        by=fitted.by,
        whitening=config.whitening,
        sentences=fitted.count,
        corpus=data.corpus.digest,
        candidates={name_of(power): mrr for power, mrr in tried.items()},
        selected_on=f"{len(task.validation):,} {task.validation.name}",
        power=power,
        base=before.scores,
        adapted=after.scores,
        verdict=verdict,
        with_bm25=benchmark.bm25_gains(before, after, among),
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
