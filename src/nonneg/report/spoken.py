"""What does the page know of captions? Which are shown, their features, and how well they fit."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nonneg import metrics
from nonneg.evaluation.figure import Figure, Figures
from nonneg.metrics.results import FloatArray, IntArray
from nonneg.report.atlas import Atlas
from nonneg.report.contents import per_feature
from nonneg.report.feature_facts import FeatureFacts, feature_facts
from nonneg.report.packing import packed
from nonneg.report.pairing import Pairing, pairing
from nonneg.report.samples import Samples, drawn


@dataclass(frozen=True, eq=False)
class Spoken:
    """The captions of an atlas.

    Args:
        captions: All of them.
        shown: Numbers of those on the page.
        place: For each of these the position of its sample on the page; None where nobody knows.
        facts: Of the features over captions; their examples are positions in ``shown``.
        pairing: How captions and samples fit; None where nobody knows whose they are.
    """

    captions: Samples
    shown: IntArray
    place: IntArray | None
    facts: FeatureFacts
    pairing: Pairing | None

    @classmethod
    def of(cls, atlas: Atlas, shown: IntArray, *, max_samples: int, seed: int) -> Self:
        """The captions of an atlas, those of shown samples where it is known whose they are.

        Args:
            atlas: With captions.
            shown: Numbers of the samples on the page.
            max_samples: A random draw of so many captions is shown when there are more.
            seed: Of that draw.
        """
        captions, of = atlas.captions, atlas.caption_of
        assert captions is not None
        if of is None:
            chosen, place, fit = drawn(len(captions), max_samples, seed), None, None
        else:
            position = np.full(len(atlas.samples), -1)
            position[shown] = np.arange(len(shown))
            candidates = np.flatnonzero(position[of] >= 0)
            chosen = candidates[drawn(len(candidates), max_samples, seed)]
            place = position[of[chosen]]
            fit = pairing(atlas.samples.features, captions.features, of)
        facts = feature_facts(captions.features, shown=chosen, n_spread=3)
        return cls(captions, chosen, place, facts, fit)

    def table(self) -> dict[str, Any]:
        """What the pages of single features need, as values that JSON can hold."""
        agreement: FloatArray | None = None if self.pairing is None else self.pairing.agreement
        return {
            "top": packed(self.facts.top, "int32"),
            "top_strength": packed(self.facts.top_strength, "float32"),
            "n_active": packed(self.facts.n_active, "int32"),
            "highest": packed(self.facts.highest, "float32"),
            "histogram": packed(self.facts.histogram, "int32"),
            "spread": packed(self.facts.spread, "int32"),
            "agreement": per_feature(agreement),
        }

    def figures(self, alive: IntArray) -> Figures:
        """Features alive on both sides, active features a caption, and how well pairs fit.

        Args:
            alive: For how many samples each feature is active ``(d,)``.
        """
        both = int(((alive > 0) & (self.facts.n_active > 0)).sum())
        return {
            "alive_both": Figure(
                both / len(alive), higher_is_better=True, is_rate=True, beside={"n_alive": both}
            ),
            "active_per_caption": Figure(metrics.active_per_sample(self.captions.features).value),
            **({} if self.pairing is None else self.pairing.figures),
        }
