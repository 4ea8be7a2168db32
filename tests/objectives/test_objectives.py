"""The contract that every row of the table keeps."""

import contextlib
import copy
import functools
import json
import re
import tempfile
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from objective_views import choices, random
from torch.autograd import gradcheck
from toy import sentences, write_toy_model

from isospace.commands.parser import options_of
from isospace.encoders.loading import load_encoder
from isospace.errors import UserError
from isospace.objectives import OBJECTIVES, SimCSE
from isospace.objectives.auxiliaries import Network, Queue
from isospace.objectives.declutr import Span
from isospace.objectives.heads import GroupWhitening
from isospace.operators.similarity import upcast
from isospace.views import NO_TARGET, TokenIds, TokenStates, View, Views

DIM, BATCH, LENGTH, CLASSES = 8, 6, 5, 3
SMALL = {"projector": (10, 10, 8), "passes": 2, "width": 8}
"""Widths and counts that the paper has larger than a test needs."""
TOGETHER = [
    ("simcse", {"supervision": "triples", "hard_negative_weight": 0.5}),
    ("whitenedcse", {"positives": "permutation", "num_views": 4}),
    ("whitenedcse", {"whitening": "none", "loss": "l2", "num_views": 2}),
    ("whitenedcse", {"whitening": "group", "groups": 2, "loss": "l2-plus", "num_views": 5}),
    ("whitenedcse", {"variant": "released", "groups": 2}),
    ("scd", {"self_contrast_weight": 0.0}),
    ("scd", {"decorrelation_weight": 0.0}),
    ("dcl", {"contrast_weight": 0.0, "dimension_temperature": 0.05}),
    ("noise-study", {"noise": "more", "part": "positives"}),
    ("rank-study", {"rows": 13}),
    ("barlow-twins", {"projector": ()}),
    ("vicreg", {"contrast_weight": 1.0}),
    ("covariance-identity", {"contrast_weight": 0.0}),
    ("declutr", {"mlm_weight": 0.0, "anchors": 1, "positives": 3}),
    ("gs-infonce", {"noise_rows": 13, "head": "none"}),
    ("arccse", {"triplet_weight": 0.0}),
    ("vascl", {"neighbours": 2, "stop_gradient": False}),
    ("iso", {"head": "mlp", "num_views": 3}),
    ("rankcse", {"contrast_weight": 0.0, "consistency_weight": 0.0, "variant": "listmle"}),
    ("rankcse", {"distillation_weight": 0.0, "head": "none"}),
    ("rankcse", {"clean_negatives": True, "own_text": "out", "group_whitening": True}),
    ("mocose", {"head_dropout": 0.0}),
    *(
        (name, {"clean_negatives": True, "dimension_weight": 0.1, "group_whitening": True})
        for name in ("esimcse", "diffcse", "mixcse", "gs-infonce", "arccse")
    ),
]
"""Options that are worth a test beside each choice alone, which `choices` finds by itself."""


def build(name, overrides):
    kind = OBJECTIVES[name]
    small = {f.name: SMALL[f.name] for f in fields(kind) if f.name in SMALL}
    return kind(**{**small, **overrides})


ALONE = [(name, one) for name in OBJECTIVES for one in choices(name)]
ALL = [(name, {}) for name in OBJECTIVES] + ALONE + TOGETHER


def order_matters(name, overrides):
    """Return true where the order of the batch decides the loss."""
    return (
        name in ("ct", "mixcse", "vascl")  # pairs, mixes and first steps go by the place
        or (name, overrides.get("variant")) == ("whitenedcse", "released")  # whitens thirds
        or overrides.get("noise") == "more"  # drawn row by row, as are dropout and words
        or (name == "mocose" and "head_dropout" not in overrides)
        or (name, overrides) == ("diffcse", {"variant": "paper"})
    )


cases = pytest.mark.parametrize(
    "case", ALL, ids=lambda case: " ".join([case[0], *(f"{k}={v}" for k, v in case[1].items())])
)
rows = pytest.mark.parametrize("name", OBJECTIVES)


def encoded_for(objective, dtype=torch.float64):
    """Views of one batch that resemble each other."""
    shared, own = random(1, BATCH, DIM), random(len(objective.views), BATCH, DIM, seed=1)
    return (shared + 0.5 * own).to(dtype)


def head_of(objective, seed=0):
    return objective.build_head(DIM, seed, CLASSES)


@functools.cache
def encoder_of(dtype):
    """One layer, without dropout, with a head for masked words."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = {"hidden_size": DIM, "num_hidden_layers": 1, "num_attention_heads": 2}
        encoder = load_encoder(str(write_toy_model(Path(folder), masked_words=True, **sizes)))
        language_model = encoder.language_model()
    encoder.noise.set(0.0)
    encoder.model.max_seq_length = 1024  # for the longest spans that an objective may ask for
    encoder.language_model = lambda name=None: language_model  # the folder is gone
    return encoder.to(dtype)


@functools.cache
def auxiliaries_of(objective, dtype):
    with torch.random.fork_rng():
        auxiliaries = objective.build_auxiliaries(encoder_of(dtype), 0)
    return {name: auxiliary.to(dtype) for name, auxiliary in auxiliaries.items()}


def has_gradient(objective, network):
    """Whether views by this network are trained."""
    found = auxiliaries_of(objective, torch.float32).get(network)
    return not isinstance(found, Network) or found.trained


def tokens_for(encoded):
    """Token states of (batch, dim) vectors, the same of a sentence wherever it stands."""
    lengths = 2 + (encoded.detach() > 0).sum(1) % (LENGTH - 1)
    mask = (torch.arange(LENGTH) < lengths[:, None]).long()
    states = torch.stack([encoded.roll(t, dims=1) for t in range(LENGTH)], dim=1)
    return TokenStates(states * mask.unsqueeze(-1), mask)


def targets_for(encoded):
    """The second token of each sentence is to be guessed."""
    words = (5 + ((encoded.detach() > 0).long().cumsum(1)[:, :LENGTH] * 3) % 25).long()
    targets = torch.where(torch.arange(LENGTH) == 1, words, NO_TARGET)
    return TokenIds(targets, tokens_for(encoded).mask)


def inputs_of(objective, encoded, rows):
    """The tokens of some sentences, edited as the plan says."""
    encoder = encoder_of(torch.float32)
    texts = [" ".join(text.split()[: 3 + place]) for place, text in enumerate(sentences(BATCH))]
    ids = [np.array(row) for row in encoder.tokens.ids(texts, LENGTH + 3)]
    inputs = []
    for place, view in enumerate(objective.inputs):
        if isinstance(view.edit, Span):  # of documents, of which the states here are not
            inputs.append(targets_for(encoded[place]))
            continue
        edit = view.edit or (lambda ids, *_: ids)
        edited = [edit(ids[i], np.random.default_rng(i), encoder.vocabulary) for i in rows]
        batch = encoder.tokens.collate(edited)
        inputs.append(TokenIds(batch.input_ids, batch.attention_mask))
    return tuple(inputs)


def see(objective, encoded, projected, rows=None):
    """The views as the loop gives them: tokens, labels, auxiliaries that remember a batch."""
    plan = enumerate(objective.views)
    tokens = {i: tokens_for(encoded[i]) for i, view in plan if view.read == "tokens"}
    auxiliaries = copy.deepcopy(auxiliaries_of(objective, upcast(encoded).dtype))
    for auxiliary in auxiliaries.values():
        if isinstance(auxiliary, Queue):
            drawn = random(BATCH, auxiliary.dim, seed=9)
            auxiliary.push(drawn.bfloat16().to(encoded))  # the same numbers in every precision
    rows = rows or list(range(encoded.shape[1]))
    labels = torch.tensor(rows) % CLASSES if objective.reads_labels else None
    inputs = inputs_of(objective, encoded, rows)
    teacher = None
    if objective.reads_teacher:
        teacher = random(BATCH, BATCH, seed=2)[rows][:, rows]
    return Views(encoded, projected, tokens, auxiliaries, inputs, labels, teacher=teacher)


def terms_of(objective, head, encoded, rows=None):
    return objective(see(objective, encoded, head(encoded), rows))


def total(terms):
    return torch.stack(list(terms.values())).sum()


@cases
def test_terms_are_finite_named_scalars_with_a_gradient_to_every_view_and_the_head(case):
    objective = build(*case)
    assert type(objective)(**json.loads(json.dumps(objective.to_json()))) == objective
    head = head_of(objective)
    encoded = encoded_for(objective).float().requires_grad_()
    terms = terms_of(objective, head, encoded)
    for value in terms.values():
        assert value.shape == ()
        assert value.dtype == torch.float32
        assert value.isfinite()
    total(terms).backward()
    assert encoded.grad.isfinite().all()
    reached = encoded.grad.abs().sum(dim=(1, 2)) > 0
    for view, is_reached in zip(objective.views, reached, strict=True):
        assert is_reached or not has_gradient(objective, view.by)
    for parameter in head.parameters():
        if parameter.requires_grad:
            assert parameter.grad.isfinite().all()


@cases
def test_the_order_of_the_batch_does_not_matter(case):
    if order_matters(*case):
        pytest.skip("the loss depends on the order of the batch")
    objective = build(*case)
    encoded, orders = encoded_for(objective), (list(range(BATCH)), [3, 0, 5, 1, 4, 2])
    first, second = (
        terms_of(objective, head_of(objective).double(), encoded[:, rows], rows) for rows in orders
    )
    for term, value in first.items():
        torch.testing.assert_close(second[term], value, rtol=1e-9, atol=1e-12)


@cases
def test_gradients_are_exact(case):
    """Numerically, in float64, through head and objective.

    Left out are terms that hold a function of the views constant: a numeric derivative would not.
    """
    if case[0] in ("mixcse", "dclr"):
        pytest.skip("mixes and hardened noise are constants; golden files have the gradients")
    constants = {"vascl": ("virtual",)}
    objective = build(*case)
    if "stop_gradient" in {f.name for f in fields(objective)}:
        with contextlib.suppress(UserError):  # where nothing is whitened
            objective = build(case[0], {**case[1], "stop_gradient": False})
    head = head_of(objective).double()
    made = encoded_for(objective)
    learning = torch.tensor([has_gradient(objective, view.by) for view in objective.views])
    for module in head.modules():
        if isinstance(module, GroupWhitening):
            module.options["stop_gradient"] = False

    def loss(learnt):
        encoded = made.index_put((learning.nonzero()[:, 0],), learnt)
        terms = terms_of(objective, copy.deepcopy(head), encoded)
        return total({k: v for k, v in terms.items() if k not in constants.get(case[0], ())})

    # In a random direction: a loss of many numbers is not run twice for each.
    assert gradcheck(loss, made[learning].requires_grad_(), fast_mode=True)


@cases
def test_half_precision_gives_float32_terms(case):
    objective = build(*case)
    encoded = encoded_for(objective).bfloat16()
    projected = head_of(objective)(encoded).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = objective(see(objective, encoded, projected))
        under_autocast = terms_of(objective, head_of(objective), encoded)
    full = objective(see(objective, encoded.float(), projected.float()))
    for term, value in half.items():
        assert value.dtype == torch.float32
        assert torch.equal(value, full[term])
        assert under_autocast[term].dtype == torch.float32
        assert under_autocast[term].isfinite()


@cases
def test_plans_that_the_stock_trainer_accepts_need_no_auxiliaries(case):
    objective = build(*case)
    plain = [replace(v, dropout=None, text=0, of_anchor=False) == View() for v in objective.views]
    if all(plain) and not objective.inputs:
        assert objective.build_auxiliaries(encoder_of(torch.float32), 0) == {}


def test_wrong_shapes_are_refused_with_the_shape():
    objective = SimCSE()
    encoded = encoded_for(objective)
    for wrong, message in (
        (encoded[0], r"\(view, batch, dim\) with at least 2 sentences; got \(6, 8\)"),
        (encoded[:, :1], r"at least 2 sentences; got \(2, 1, 8\)"),
        (encoded[:0], r"SimCSE plans 2 views; .*\(0, 6, 8\)"),
    ):
        with pytest.raises(ValueError, match=message):
            objective(Views(wrong, wrong))


@rows
def test_citation_is_complete(name):
    paper = OBJECTIVES[name].paper
    assert paper.url.startswith("https://")
    assert 2015 < paper.year < 2030
    assert len(paper.title.split()) > 2
    for entry in re.split(r"\n\n(?=@)", paper.bibtex):
        assert entry.count("{") == entry.count("}")
        assert {"title", "author", "year", "url"} <= set(re.findall(r"^ +(\w+) = ", entry, re.M))


@rows
def test_documentation_has_formula_relations_and_a_line_per_field(name):
    documentation = OBJECTIVES[name].__doc__ or ""
    assert documentation.count("$$") >= 2
    assert "Relations:" in documentation
    options = options_of(OBJECTIVES[name])
    assert len(options) == len(fields(OBJECTIVES[name]))
    assert all(option.text for option in options)


@cases
def test_heads_draw_from_their_seed_alone_and_go_on_from_a_checkpoint(case):
    objective = build(*case)
    encoded = encoded_for(objective).float()
    before = torch.get_rng_state()
    head, again, resumed = (head_of(objective, seed) for seed in (0, 0, 1))
    first, same, other = (one(encoded) for one in (head, again, resumed))
    total(objective(see(objective, encoded, first)))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, same)
    if list(head.parameters()):
        assert not torch.equal(first, other)
    resumed.load_state_dict({key: value.clone() for key, value in head.state_dict().items()})
    assert torch.equal(resumed(encoded), head(encoded))
    for key, value in head.state_dict().items():
        assert torch.equal(resumed.state_dict()[key], value)
