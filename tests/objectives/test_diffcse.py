"""DiffCSE against loops and against vectors of its authors' code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden_files import DTYPES, GRADIENT, File, files, precisions, read, scalar, vector
from loops import CONFIG, make_loop
from torch import Tensor, nn
from toy import sentences, write_toy_model

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.losses import replace_words, replacement_detection
from isospace.objectives import DiffCSE
from isospace.objectives.heads import JointProjector
from isospace.views import TokenIds, Views
from isospace.views.edits import MaskTokens

POSITIONS = {
    "all": "rtd_loss_all_positions_f64",
    "tokens": "rtd_loss_real_tokens_only_f64",
}


def rows(file: File, name: str) -> Tensor:
    """(n, length) of all first views, then of all second ones; the file has view after view."""
    x = file[name]
    return torch.cat([x[0::2], x[1::2]]) if len(x) == 2 * len(file["input_ids"]) else x.repeat(2, 1)


def tokens(file: File, name: str) -> TokenIds:
    return TokenIds(rows(file, name).long(), rows(file, "attention_mask").long())


class Recorded(nn.Module):
    """The recorded generator's words, and the discriminator stub of the file."""

    def __init__(self, file: File, precision: str) -> None:
        super().__init__()
        dtype = DTYPES[precision]
        self.file, self.calls = file, 0
        self.table = nn.Parameter(file["disc_table"].to(dtype))
        self.scale = file["disc_position_scale"].to(dtype)
        self.head = nn.Linear(self.table.shape[1], 2, dtype=dtype)
        with torch.no_grad():
            self.head.weight.copy_(file["head_weight"])
            self.head.bias.copy_(file["head_bias"])

    def guesses(self, original: TokenIds, masked: TokenIds, *, sampled: bool) -> Tensor:
        logits = self.file["generator_logits"].float()[self.calls :: 2]
        self.calls += 1
        return logits.argmax(-1)

    def forward(self, sentences: Tensor, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.table[ids] + self.scale[:, None] * sentences[:, None]
        return self.head(states)


def projector(file: File, precision: str) -> JointProjector:
    head = JointProjector(file["proj_W1"].shape[1], torch.Generator()).to(DTYPES[precision])
    with torch.no_grad():
        head.layers[0].weight.copy_(file["proj_W1"])
        head.layers[1].weight.copy_(file["proj_bn1_weight"])
        head.layers[1].bias.copy_(file["proj_bn1_bias"])
        head.layers[3].weight.copy_(file["proj_W2"])
    assert all(head.layers[i].eps == file["bn_eps"] for i in (1, 4))
    assert all(head.layers[i].momentum == file["bn_momentum"] for i in (1, 4))
    return head


def views_of(file: File, encoded: Tensor, projected: Tensor, detector: nn.Module) -> Views:
    mask = file["attention_mask"].long()
    masked = [TokenIds(file["mlm_input_ids"][v::2].long(), mask) for v in (0, 1)]
    inputs = (TokenIds(file["input_ids"].long(), mask), *masked)
    return Views(encoded, projected, {}, {"detector": detector}, inputs)


@precisions
@files("baselines/diffcse")
def test_loss_is_the_authors(path, precision):
    file = read(path)
    objective = DiffCSE(
        temperature=float(file["temperature"]),
        detection_weight=float(file["lambda_rtd"]),
        positions="all",
    )
    cls = file["cls"].to(DTYPES[precision]).requires_grad_()
    encoded = cls.transpose(0, 1)
    head, detector = projector(file, precision), Recorded(file, precision)
    projected = head(encoded)
    terms = objective(views_of(file, encoded, projected, detector))
    limit = {"f64": 1e-10, "f32": 5e-6}[precision]
    scalar(terms["info_nce"], file[f"official_infonce_{precision}"], limit)
    total = torch.stack(list(terms.values())).sum()
    scalar(total, file[f"official_loss_{precision}"], limit)
    total.backward()
    vector(cls.grad, file[f"official_grad_cls_{precision}"], GRADIENT[precision])
    if precision == "f64":
        flat = projected.transpose(0, 1).flatten(0, 1)
        vector(flat, file["official_projected_f64"], 1e-10)
        vector(detector.table.grad, file["official_grad_disc_table_f64"], 1e-8)
        vector(detector.head.weight.grad, file["official_grad_head_weight_f64"], 1e-8)
        for layer, name in ((0, "W1"), (3, "W2")):
            expected = file[f"official_grad_proj_{name}_f64_as_f32"]
            vector(head.layers[layer].weight.grad, expected, 1e-6)
        for layer, name in ((1, "bn1"), (4, "bn2")):
            for part in ("mean", "var"):
                found = getattr(head.layers[layer], f"running_{part}")
                vector(found, file[f"official_{name}_running_{part}_f64"], 1e-10)
        head.eval()
        flat = head(encoded).transpose(0, 1).flatten(0, 1)
        vector(flat, file["official_projected_eval_mode_f64"], 1e-10)


@pytest.mark.parametrize("positions", POSITIONS)
@files("baselines/diffcse")
def test_detection_is_over_the_positions_that_are_asked_for(path, positions):
    file = read(path)
    logits = torch.cat([file["official_rtd_logits_f64"][v::2] for v in (0, 1)])
    shown = rows(file, "official_discriminator_ids").long()
    leaf = logits.clone().requires_grad_()
    original = tokens(file, "input_ids")
    loss = replacement_detection(leaf, shown, original.ids, original.mask, positions=positions)
    scalar(loss, file[POSITIONS[positions]], 1e-10)
    if positions == "all":
        loss.backward()
        expected = torch.cat([file["rtd_grad_logits_all_positions_f64"][v::2] for v in (0, 1)])
        vector(leaf.grad, expected, 1e-8)


@files("baselines/diffcse")
def test_replaced_words_are_the_authors(path):
    file = read(path)
    original, masked = tokens(file, "input_ids"), tokens(file, "mlm_input_ids")
    logits = torch.cat([file["generator_logits"][v::2] for v in (0, 1)]).double()
    gumbel = torch.cat([file["paper_gumbel"][v::2] for v in (0, 1)]).double()
    for everywhere, scores, ids, labels in (
        (True, logits, "official_discriminator_ids", "rtd_labels"),
        (False, logits, "argmax_at_masked_only_ids", "argmax_at_masked_only_labels"),
        (False, logits + gumbel, "paper_sampled_ids", "paper_sampled_labels"),
    ):
        guesses, mask = scores.argmax(-1), original.mask
        found = replace_words(original.ids, masked.ids, guesses, mask, everywhere=everywhere)
        assert torch.equal(found, rows(file, ids).long() * original.mask)
        differs = (found != original.ids).long() * original.mask
        assert torch.equal(differs, rows(file, labels).long())


@pytest.fixture(scope="module")
def with_head(tmp_path_factory):
    return write_toy_model(tmp_path_factory.mktemp("masked") / "bert", masked_words=True)


def detector_of(model, **options):
    encoder = load_encoder(str(model), device="cpu")
    encoder.noise.set(0.0)
    auxiliaries = DiffCSE(**options).build_auxiliaries(encoder, 0)
    return encoder, auxiliaries["detector"]


def batch_of(encoder, count=4):
    batch = encoder.tokens.collate(encoder.tokens.ids(sentences(count)))
    original = TokenIds(batch.input_ids, batch.attention_mask)
    ids = [
        MaskTokens(rate=0.5)(row.numpy(), np.random.default_rng(i), encoder.vocabulary)
        for i, row in enumerate(original.ids)
    ]
    return original, TokenIds(torch.tensor(np.array(ids)), original.mask)


def test_the_generator_is_the_checkpoint_of_the_start_or_the_one_that_is_named(
    toy_model, with_head
):
    for model, options in ((with_head, {}), (toy_model, {"generator": str(with_head)})):
        encoder, detector = detector_of(model, **options)
        original, masked = batch_of(encoder)
        ids = detector.guesses(original, masked, sampled=False)
        expected = detector.language_model.model(masked.ids, masked.mask).logits.argmax(-1)
        assert torch.equal(ids, expected)
        assert not any(p.requires_grad for p in detector.language_model.parameters())
        assert not detector.train().language_model.model.training


def test_sampled_words_follow_the_generator(with_head):
    encoder, detector = detector_of(with_head)
    original, masked = batch_of(encoder)
    many = [TokenIds(x.ids.repeat(500, 1), x.mask.repeat(500, 1)) for x in (original, masked)]
    draws = [detector.guesses(*many, sampled=True)[:: len(masked.ids), 1] for _ in range(8)]
    found = torch.bincount(torch.cat(draws), minlength=len(encoder.tokenizer)) / 4000
    expected = detector.language_model(masked.ids, masked.mask)[0, 1].softmax(-1)
    assert (found - expected).abs().max() < 0.02


def test_words_of_the_batch_where_there_is_no_generator(toy_model):
    encoder, detector = detector_of(toy_model, generator="words")
    original, masked = batch_of(encoder)
    ids = detector.guesses(original, masked, sampled=False)
    special = torch.tensor(sorted(encoder.vocabulary.special))
    assert torch.isin(ids, original.ids[original.mask.bool()]).all()
    assert not torch.isin(ids, special).any()
    assert (ids != original.ids).any()


def test_the_discriminator_reads_the_sentence_vector_in_front(toy_model):
    encoder, detector = detector_of(toy_model, generator="words")
    original, _ = batch_of(encoder)
    vectors = torch.randn(4, encoder.dim, generator=torch.manual_seed(0), requires_grad=True)
    logits = detector(vectors, original.ids, original.mask)
    other = original.ids.clone()
    other[:, 0] = 30  # never read
    assert torch.equal(detector(vectors, other, original.mask), logits)
    logits[1].sum().backward()
    assert vectors.grad[1].any()
    assert not vectors.grad[[0, 2, 3]].any()
    assert all(p.grad is None for p in encoder.parameters())


def test_a_start_without_a_head_for_masked_words_is_refused(toy_model, tmp_path):
    config = replace(CONFIG, objective=DiffCSE())
    with pytest.raises(UserError, match=r"no trained head for masked words .*`generator` words"):
        make_loop(toy_model, tmp_path, config)


def test_a_generator_of_another_vocabulary_is_refused(toy_model, with_head, tmp_path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(with_head)
    tokenizer.add_tokens(["newword"])
    other = write_toy_model(tmp_path / "other", masked_words=True)
    tokenizer.save_pretrained(other)
    with pytest.raises(ValueError, match="has another vocabulary than"):
        detector_of(toy_model, generator=str(other))
