"""From co-occurrence to posterior, in a world of two hundred samples and five latent classes."""

import numpy as np

from nonneg.factorization import (
    eigen_factor,
    features_of,
    identification_score,
    posterior_features,
    random_world,
    spectral_population_loss,
    train_table,
)

rng = np.random.default_rng(0)
world = random_world(200, 5, rng, concentration=0.5)
phi = posterior_features(world)  # what NCL should find

# Ordinary contrastive learning: the exact optimum, from the matrix of all pairs.
cl = features_of(eigen_factor(world.normalized, 5), world)
# Non-negative contrastive learning: from drawn pairs alone.
ncl = train_table(world, 5, rng)

for name, features in (("posterior", phi), ("CL", cl), ("NCL", ncl)):
    loss = spectral_population_loss(features, world)
    match = identification_score(features, phi)
    print(f"{name:>9}: loss {loss:.4f}, matched cosine with the posterior {match.value:.3f}")
