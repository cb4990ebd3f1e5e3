"""What becomes of a feature that is off for every sample? It starts anew at one of the samples."""

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nonneg.encoder import Encoder
from nonneg.metrics import ACTIVE_THRESHOLD
from nonneg.metrics.rows import unit_rows

# Samples that a feature has to be off for to count as dead while training.
_N_SAMPLES = 4096
# Fewer dead features than this share are left alone.
_MAX_DEAD_RATE = 0.5
# The share of samples that a revived feature is on for at first.
_ON_RATE = 0.01


@torch.no_grad()
def revive_dead(
    encoder: Encoder, optimizer: Optimizer, hidden: Tensor, generator: torch.Generator
) -> int:
    """If most features are dead, point each of these at a sample drawn by chance.

    Some dead features are no harm: reviving all of them gives more features that say the same.
    A revived feature has weights of the usual length and is on for the 1 % of the samples most
    like its own; the optimiser forgets what it knew of it.

    Args:
        encoder: Its last layer changes in place; its mode is left as it was.
        optimizer: Of the projector, AdamW.
        hidden: Backbone outputs of the samples ``(n, h)``; some 4,096 of them are looked at.
        generator: Draws the samples.

    Returns:
        How many features were revived; if all are dead, none can be.
    """
    was_training = encoder.projector.training
    encoder.projector.eval()
    some = torch.randperm(len(hidden), generator=generator)[:_N_SAMPLES].to(hidden.device)
    inputs = encoder.projector[:-1](hidden[some])  # (n, width)
    last = encoder.projector[-1]
    assert isinstance(last, nn.Linear)
    features = encoder.nonnegative(last(inputs))
    encoder.projector.train(was_training)
    dead = ~(unit_rows(features).abs() > ACTIVE_THRESHOLD).any(dim=0)  # (d,)
    n_dead = int(dead.sum())
    if n_dead <= _MAX_DEAD_RATE * len(dead) or n_dead == len(dead):
        return 0
    chosen = torch.randint(len(inputs), (n_dead,), generator=generator).to(hidden.device)
    toward = unit_rows(inputs[chosen] - inputs.mean(dim=0))
    weight = toward * last.weight[~dead].norm(dim=1).median()
    n_on = max(1, round(_ON_RATE * len(inputs)))
    least = (inputs @ weight.T).topk(min(n_on + 1, len(inputs)), dim=0).values[-1]
    last.weight[dead], last.bias[dead] = weight, -least
    for parameter in (last.weight, last.bias):
        for moment in ("exp_avg", "exp_avg_sq"):
            optimizer.state[parameter][moment][dead] = 0
    return n_dead
