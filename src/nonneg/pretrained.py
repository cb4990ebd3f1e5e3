"""The methods by which models are shared: folders with a card, and the Hugging Face hub."""

from importlib import import_module
from pathlib import Path
from typing import Any, Self, cast


class Shareable:
    """What ``Encoder``, ``NCL`` and ``CrossNCL`` have to be published and fetched.

    Files are safetensors and JSON; nothing is pickled, and no code is downloaded.
    """

    def save_pretrained(
        self, folder: str | Path, *, run: str | Path | None = None, license: str | None = None
    ) -> None:
        """Write what ``save`` writes into a folder, and a model card ``README.md``.

        Args:
            folder: Where to write.
            run: The run folder that this model is of: what was measured there goes into the card.
            license: For the card, as the hub names it, such as ``"mit"``; None leaves it out.

        Raises:
            FileExistsError: The folder holds something else, or a README.md that is not ours.
            ValueError: The run is that of another model.
        """
        _hub().save_pretrained(self, Path(folder), run=run, license=license)

    @classmethod
    def from_pretrained(
        cls,
        place: str | Path,
        *,
        revision: str | None = None,
        token: str | bool | None = None,
        **loading: Any,  # noqa: ANN401
    ) -> Self:
        """The model of a folder, or of a repository of the hub.

        Of a repository only the files that ``save`` writes are downloaded, and one that asks for
        anything else is refused. It needs the extra ``hub``; a folder does not.

        Args:
            place: A folder, or ``owner/name``.
            revision: Of the repository: a branch, a tag or a commit.
            token: Of the hub; None for the one that is stored on this machine.
            loading: More arguments of ``load``, such as the ``backbone`` of an encoder.
        """
        found = _hub().from_pretrained(cls, place, revision=revision, token=token, **loading)
        return cast(Self, found)

    def push_to_hub(
        self,
        repo: str,
        *,
        run: str | Path | None = None,
        license: str | None = None,
        private: bool | None = None,
        token: str | bool | None = None,
        revision: str | None = None,
        message: str = "Upload a model of nonneg",
    ) -> str:
        """Upload what :meth:`save_pretrained` writes to a repository of the hub, as one commit.

        Args:
            repo: ``owner/name``; made if it is not there.
            run: As in :meth:`save_pretrained`.
            license: Likewise.
            private: Whether only its owner sees a new repository; None for the owner's default.
            token: Of the hub; None for the one that is stored on this machine.
            revision: The branch to commit to; None for the main one.
            message: Of the commit.

        Returns:
            The address of the commit.
        """
        address: str = _hub().push_to_hub(
            self,
            repo,
            run=run,
            license=license,
            private=private,
            token=token,
            revision=revision,
            message=message,
        )
        return address


def _hub() -> Any:  # noqa: ANN401
    # It knows all models, which stand on this class: imported on call.
    return import_module("nonneg.interchange.hub")
