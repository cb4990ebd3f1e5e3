import torch
from torch import nn

from nonneg import Encoder, EncoderSettings
from nonneg.estimators.revival import revive_dead
from nonneg.projector import ProjectorSettings

HIDDEN = torch.randn(500, 6, generator=torch.Generator().manual_seed(0))


def encoder_with_dead(n_dead):
    torch.manual_seed(0)
    head = ProjectorSettings(hidden=(), n_features=40)
    encoder = Encoder(EncoderSettings(projector=head), (6,), backbone=nn.Identity())
    with torch.no_grad():
        encoder.projector[-1].bias[:n_dead] = -100
    optimizer = torch.optim.AdamW(encoder.projector.parameters())
    encoder(HIDDEN).features.sum().backward()
    optimizer.step()
    return encoder, optimizer


def n_on(encoder):
    return (encoder(HIDDEN).features > 0).sum(dim=0)


def test_most_dead_are_all_revived_and_on_for_a_percent():
    encoder, optimizer = encoder_with_dead(30)
    others = encoder.projector[-1].weight[30:].clone()
    assert (n_on(encoder)[:30] == 0).all()
    assert revive_dead([(encoder, HIDDEN)], optimizer, torch.Generator().manual_seed(1)) == 30
    assert (n_on(encoder)[:30] == 5).all()
    assert torch.equal(encoder.projector[-1].weight[30:], others)
    for parameter in encoder.projector[-1].parameters():
        moments = optimizer.state[parameter]
        assert (moments["exp_avg"][:30] == 0).all()
        assert (moments["exp_avg"][30:] != 0).any()


def test_a_few_dead_and_all_dead_are_left_alone():
    for n_dead in (10, 40):
        encoder, optimizer = encoder_with_dead(n_dead)
        before = encoder.projector[-1].weight.clone()
        assert revive_dead([(encoder, HIDDEN)], optimizer, torch.Generator()) == 0
        assert torch.equal(encoder.projector[-1].weight, before)


def test_what_is_dead_in_one_of_two_heads_starts_anew_at_the_same_pair_in_both():
    one, _ = encoder_with_dead(30)
    two, _ = encoder_with_dead(0)
    parameters = [*one.projector.parameters(), *two.projector.parameters()]
    optimizer = torch.optim.AdamW(parameters)
    (one(HIDDEN).features.sum() + two(2 * HIDDEN).features.sum()).backward()
    optimizer.step()
    heads = [(one, HIDDEN), (two, 2 * HIDDEN)]
    assert revive_dead(heads, optimizer, torch.Generator().manual_seed(1)) == 30
    strongest = [encoder(h).features[:, :30].argmax(dim=0) for encoder, h in heads]
    assert torch.equal(*strongest)  # both sides of a pair point the same way here
