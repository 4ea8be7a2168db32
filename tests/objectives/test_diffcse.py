"""DiffCSE against loops and against vectors of its authors' code."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from golden_files import BASELINE, check_gradient, files, leaf, precisions, read, scalar
from loops import CONFIG, make_loop
from torch import nn
from toy import sentences, write_toy_model

from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.losses import replace_words, replacement_detection
from isospace.objectives import DiffCSE
from isospace.objectives.heads import JointProjector
from isospace.views import TokenIds, Views
from isospace.views.edits import MaskTokens


class Recorded(nn.Module):
    """The recorded generator's words, and the discriminator stub of the file."""

    def __init__(self, file, dtype):
        super().__init__()
        self.guessed = iter([file["generator_logits"][view::2].argmax(-1) for view in (0, 1)])
        names = ("disc_table", "disc_position_scale", "head_weight", "head_bias")
        self.table, self.scale, self.weight, self.bias = (file[name].to(dtype) for name in names)

    def guesses(self, original, masked, *, sampled):
        return next(self.guessed)

    def forward(self, sentences, ids, mask):
        states = self.table[ids] + self.scale[:, None] * sentences[:, None]
        return nn.functional.linear(states, self.weight, self.bias)


@precisions
@files("baselines/diffcse")
def test_loss_is_the_authors(path, precision):
    file = read(path)
    head = JointProjector(file["proj_W1"].shape[1], torch.Generator())
    weights = {
        "0.weight": "W1", "1.weight": "bn1_weight", "1.bias": "bn1_bias", "3.weight": "W2",
    }  # fmt: skip
    own = {name: file[f"proj_{theirs}"] for name, theirs in weights.items()}
    head.layers.load_state_dict(own, strict=False)
    assert {head.layers[i].eps for i in (1, 4)} == {float(file["bn_eps"])}
    cls = leaf(file["cls"], precision)
    encoded = cls.transpose(0, 1)
    mask = file["attention_mask"].long()
    ids = file["input_ids"], *(file["mlm_input_ids"][view::2] for view in (0, 1))
    inputs = tuple(TokenIds(x.long(), mask) for x in ids)
    detector = {"detector": Recorded(file, cls.dtype)}
    objective = DiffCSE(
        temperature=float(file["temperature"]),
        detection_weight=float(file["lambda_rtd"]),
        positions="all",
    )
    terms = objective(Views(encoded, head.to(cls.dtype)(encoded), {}, detector, inputs))
    limit = {"f64": 1e-10, "f32": BASELINE}[precision]
    scalar(terms["info_nce"], file[f"official_infonce_{precision}"], limit)
    total = sum(terms.values())
    scalar(total, file[f"official_loss_{precision}"], limit)
    total.backward()
    check_gradient(file, "official_grad_cls", precision, cls)
    if precision == "f64":
        for layer, name in ((0, "W1"), (3, "W2")):
            check_gradient(file, f"official_grad_proj_{name}", "f64", head.layers[layer].weight)


@files("baselines/diffcse")
def test_replaced_words_and_their_detection_are_the_authors(path):
    file = read(path)
    names = ("attention_mask", "input_ids")
    mask, original = (file[name].long().repeat_interleave(2, dim=0) for name in names)
    logits = file["generator_logits"].double()
    for everywhere, scores, ids in (
        (True, logits, "official_discriminator_ids"),
        (False, logits, "argmax_at_masked_only_ids"),
        (False, logits + file["paper_gumbel"], "paper_sampled_ids"),
    ):
        guesses, masked = scores.argmax(-1), file["mlm_input_ids"].long()
        found = replace_words(original, masked, guesses, mask, everywhere=everywhere)
        assert torch.equal(found, file[ids].long() * mask)
    shown, logits = file["official_discriminator_ids"].long(), file["official_rtd_logits_f64"]
    loss = replacement_detection(logits, shown, original, mask)
    scalar(loss, file["rtd_loss_real_tokens_only_f64"], 1e-10)


@pytest.fixture(scope="module")
def with_head(tmp_path_factory):
    return write_toy_model(tmp_path_factory.mktemp("masked") / "bert", masked_words=True)


def detector_of(model, **options):
    encoder = load_encoder(str(model), device="cpu")
    encoder.noise.set(0.0)
    return encoder, DiffCSE(**options).build_auxiliaries(encoder, 0)["detector"]


def batch_of(encoder, count=4):
    batch = encoder.tokens.collate(encoder.tokens.ids(sentences(count)))
    original = TokenIds(batch.input_ids, batch.attention_mask)
    ids = [
        MaskTokens(rate=0.5)(row.numpy(), np.random.default_rng(i), encoder.vocabulary)
        for i, row in enumerate(original.ids)
    ]
    return original, TokenIds(torch.tensor(np.array(ids)), original.mask)


def test_the_generator_is_that_of_the_base_model_or_the_named_one(toy_model, with_head):
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
