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
    assert revive_dead(encoder, optimizer, HIDDEN, torch.Generator().manual_seed(1)) == 30
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
        assert revive_dead(encoder, optimizer, HIDDEN, torch.Generator()) == 0
        assert torch.equal(encoder.projector[-1].weight, before)
