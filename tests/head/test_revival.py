import torch
from torch import nn

from nonneg import Encoder, EncoderSettings
from nonneg.head.projector import ProjectorSettings
from nonneg.head.revival import forget, reinitialise, revive_dead
from nonneg.training.optimizers import optimizer
from nonneg.training.settings import OptimizerSettings

HIDDEN = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))


def encoder_with_dead(n_dead):
    torch.manual_seed(0)
    head = ProjectorSettings(hidden=(), n_features=40)
    encoder = Encoder(EncoderSettings(projector=head), (6,), backbone=nn.Identity())
    with torch.no_grad():
        encoder.projector[-1].bias[:n_dead] = -100
    adam = torch.optim.AdamW(encoder.projector.parameters())
    encoder(HIDDEN).features.sum().backward()
    adam.step()
    return encoder, adam


def n_on(encoder):
    return (encoder(HIDDEN).features > 0).sum(dim=0)


def test_most_dead_are_all_revived_and_on_for_a_percent():
    encoder, adam = encoder_with_dead(30)
    others = encoder.projector[-1].weight[30:].clone()
    assert (n_on(encoder)[:30] == 0).all()
    revived = revive_dead([(encoder, HIDDEN)], torch.Generator().manual_seed(1), max_dead_rate=0.5)
    assert revived.nonzero().flatten().tolist() == list(range(30))
    assert (n_on(encoder)[:30] == 5).all()
    assert len(encoder.projector[-1].weight[:30].unique(dim=0)) == 30
    assert torch.equal(encoder.projector[-1].weight[30:], others)
    forget(adam, encoder.projector[-1], revived)
    for parameter in encoder.projector[-1].parameters():
        moments = adam.state[parameter]
        assert (moments["exp_avg"][:30] == 0).all()
        assert (moments["exp_avg"][30:] != 0).any()


def test_a_few_dead_and_all_dead_are_left_alone():
    for n_dead in (10, 40):
        encoder, _ = encoder_with_dead(n_dead)
        before = encoder.projector[-1].weight.clone()
        assert not revive_dead([(encoder, HIDDEN)], torch.Generator(), max_dead_rate=0.25).any()
        assert torch.equal(encoder.projector[-1].weight, before)


def test_anchored_features_each_have_a_sample_of_their_own_and_are_on_for_five_percent():
    encoder, _ = encoder_with_dead(30)
    assert reinitialise(encoder, HIDDEN, torch.Generator().manual_seed(1)).all()
    last = encoder.projector[-1]
    assert (n_on(encoder) == 25).all()
    assert len(last.weight.unique(dim=0)) == 40
    # Each points from the mean to one of the samples.
    directions = torch.nn.functional.normalize(HIDDEN - HIDDEN.mean(dim=0), dim=1)
    cosines = torch.nn.functional.normalize(last.weight, dim=1) @ directions.T
    torch.testing.assert_close(cosines.max(dim=1).values, torch.ones(40))


def test_features_beyond_the_number_of_samples_are_not_anchored():
    encoder, _ = encoder_with_dead(0)
    before = encoder.projector[-1].weight.clone()
    anchored = reinitialise(encoder, HIDDEN[:25], torch.Generator().manual_seed(1))
    assert anchored.tolist() == [True] * 25 + [False] * 15
    assert torch.equal(encoder.projector[-1].weight[25:], before[25:])
    assert not (encoder.projector[-1].weight[:25] == before[:25]).any()


def test_what_is_dead_in_one_of_two_heads_starts_anew_at_the_same_pair_in_both():
    one, _ = encoder_with_dead(30)
    two, _ = encoder_with_dead(0)
    heads = [(one, HIDDEN), (two, 2 * HIDDEN)]
    generator = torch.Generator().manual_seed(1)
    assert revive_dead(heads, generator, max_dead_rate=0.5).sum() == 30
    strongest = [encoder(h).features[:, :30].argmax(dim=0) for encoder, h in heads]
    assert torch.equal(*strongest)  # both sides of a pair point the same way here


def test_any_optimiser_forgets():
    for settings in (OptimizerSettings(name=name) for name in ("adamw", "sgd", "lars")):
        layer = nn.Linear(3, 4)
        moved = optimizer(layer, settings)
        layer(torch.ones(1, 3)).sum().backward()
        moved.step()
        forget(moved, layer, torch.tensor([True, False, False, True]))
        for parameter in layer.parameters():
            kept = [v for v in moved.state[parameter].values() if v.shape == parameter.shape]
            assert kept
            for one in kept:
                assert (one[[0, 3]] == 0).all()
                assert (one[[1, 2]] != 0).all()


def test_no_two_features_start_at_the_same_sample():
    """They would stay copies of each other; what is left over stays dead."""
    encoder, _ = encoder_with_dead(30)
    few = HIDDEN[:20]
    revived = revive_dead([(encoder, few)], torch.Generator().manual_seed(1), max_dead_rate=0.5)
    assert 15 < revived.sum() <= 20
    assert len(encoder.projector[-1].weight[revived].unique(dim=0)) == revived.sum()


def test_equal_samples_do_not_keep_a_feature_off():
    encoder, _ = encoder_with_dead(30)
    same = HIDDEN[:1].expand(100, -1) + torch.eye(100, 6)
    revive_dead([(encoder, same)], torch.Generator().manual_seed(1), max_dead_rate=0.5)
    assert ((encoder(same).features > 0).sum(dim=0)[:30] > 0).all()
