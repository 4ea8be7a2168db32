"""What views encode: draws by sentence, changed embeddings, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from toy import sentences

from isospace.config import TrainConfig
from isospace.errors import UserError
from isospace.objectives import ArcCSE
from isospace.training.batches import Sources
from isospace.training.build import build_parts
from isospace.views import View
from isospace.views.edits import CutOff, InsertTokens, Repeat, ShuffledPositions, Template

PLAN = [
    View(0.0),
    View(0.0, perturb=CutOff("features", 0.2)),
    View(0.0, perturb=ShuffledPositions()),
    View(0.0, edit=Repeat(), perturb=CutOff("elements", 0.3)),
]


def made(encoder, plan, rows, micro=0, seed=0):
    sources = Sources(plan, encoder, seed)
    ids = [np.array(row) for row in encoder.tokens.ids(sentences(8))]
    batch = sources.batch([[ids[row] for row in rows]], np.array(rows), micro)
    return torch.stack(encoder(batch, plan, sources.of_view))


def test_draws_depend_on_the_sentence_and_not_on_its_batch(encoder):
    whole, part = made(encoder, PLAN, [1, 3, 6, 2]), made(encoder, PLAN, [6, 2])
    assert torch.allclose(whole[:, 2:], part, atol=1e-5)
    assert not torch.allclose(whole[1:, 2:], made(encoder, PLAN, [6, 2], micro=1)[1:], atol=1e-3)
    assert not torch.allclose(whole[1:, 2:], made(encoder, PLAN, [6, 2], seed=1)[1:], atol=1e-3)


def test_a_change_of_nothing_changes_nothing(encoder):
    plain, same = made(encoder, [View(0.0), View(0.0, perturb=CutOff("features", 1e-6))], [0, 5])
    assert torch.allclose(plain, same, atol=1e-5)


def test_shuffled_positions_are_positions_of_the_model(encoder):
    order = [3, 0, 2, 1, 5, 4, 6, *range(7, 20)]

    class Fixed(ShuffledPositions):
        def positions(self, length, random):
            return np.array([i for i in order if i < length])

    [found] = made(encoder, [View(0.0, perturb=Fixed())], [2])
    ids = torch.tensor(encoder.tokens.ids(sentences(8))[2])
    positions = torch.tensor([i for i in order if i < len(ids)])
    with torch.no_grad(), encoder.noise.at(0.0):
        states = encoder.model[0].model(ids.unsqueeze(0), position_ids=positions.unsqueeze(0))
    assert torch.allclose(found, states[0].mean(1), atol=1e-5)


def test_a_sentence_is_cut_to_what_the_encoder_can_read_in_a_template(encoder):
    words = Template(before="the cat", after="[MASK] .")
    plan = [View(0.0, edit=words, read="mask"), View(0.0, edit=replace(words, empty=True))]
    sources = Sources(plan, encoder, 0)
    ids = np.array(encoder.tokens.ids(["big red " * 60])[0])
    assert len(ids) == encoder.max_length
    batch = sources.batch([[ids]], np.array([0]), 0)
    assert batch.input_ids.shape == (2, encoder.max_length)
    mask = encoder.vocabulary.mask_id
    assert batch.input_ids[0, -3] == mask
    alone = batch.input_ids[1].tolist().index(mask)
    assert batch.changed[1].positions[0, alone] == encoder.max_length - 3


@pytest.mark.parametrize("edit", [Repeat(), InsertTokens()], ids=["repeat", "insert"])
def test_a_sentence_that_fills_the_encoder_has_room_for_what_an_edit_adds(encoder, edit):
    encoder.model.max_seq_length = 31
    long, short = (np.array(row) for row in encoder.tokens.ids(["big red " * 30, "big red " * 11]))
    assert (len(long), len(short)) == (encoder.max_length, 24)
    sources = Sources([View(0.0, edit=edit)], encoder, 0)
    lengths = []
    for micro in range(200):
        batch = sources.batch([[long, short]], np.array([0, 1]), micro)
        lengths.append(batch.attention_mask.sum(1).tolist())
    of_long, of_short = zip(*lengths, strict=True)
    assert 30 <= max(of_long) <= 31
    assert min(of_short) >= 24
    assert max(of_short) == 24 + edit.adds(short, encoder.vocabulary)


def test_a_tokenizer_without_a_mask_token_is_refused(encoder):
    encoder.model.tokenizer.mask_token = None
    with pytest.raises(UserError, match="no mask token, which this objective needs"):
        Sources([View(read="mask")], encoder, 0)
    config = TrainConfig(objective=ArcCSE())
    with pytest.raises(UserError, match=r"no mask token.*or set `triplet_weight` 0"):
        build_parts(config, encoder)
    build_parts(replace(config, objective=ArcCSE(triplet_weight=0.0)), encoder)
