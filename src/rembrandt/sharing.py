"""Models on the Hugging Face Hub: a saved model is uploaded as it is, and what is downloaded is
checked like any other folder.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rembrandt.errors import ModelError, RembrandtError, StorageError
from rembrandt.estimators.loading import load
from rembrandt.model.folder import FILES, why_not_a_model
from rembrandt.storage.atomic import atomic_folder

EXTRA = "hub"  # of the package, which installs huggingface_hub


def push(path: str | Path, repository: str, private: bool = False, endpoint: Any = None) -> str:
    """Upload a saved model to the Hugging Face Hub.

    The repository is made if it does not exist. The account is the one of ``hf auth login``, or of
    the token in ``HF_TOKEN``. The model and its card are uploaded, and nothing else of the folder.

    Parameters
    ----------
    path : str or Path
        The folder of the model.
    repository : str
        Name of the repository, "account/model".
    private : bool, default=False
        Make a new repository private.
    endpoint : str, default=None
        Address of another server with the same interface.

    Returns
    -------
    str
        The address of the commit.
    """
    folder = Path(path)
    load(folder)  # a damaged model is not uploaded
    with _hub_errors(repository) as hub:
        api = hub.HfApi(endpoint=endpoint)
        api.create_repo(repository, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            folder_path=folder,
            allow_patterns=list(FILES),
            commit_message="Rembrandt model",
        )
    return str(commit.commit_url)


def pull(
    repository: str,
    path: str | Path,
    revision: str | None = None,
    force: bool = False,
    require_signature: str | bytes | None = None,
    endpoint: Any = None,
) -> None:
    """Download a model from the Hugging Face Hub to a new folder.

    The model is not trusted: it is checked as by `rembrandt.load` before the folder appears, and
    nothing in it is run.

    Parameters
    ----------
    repository : str
        Name of the repository, "account/model".
    path : str or Path
        The folder to write to.
    revision : str, default=None
        A branch, tag or commit; the newest commit by default.
    force : bool, default=False
        Replace a model that is there.
    require_signature : str or bytes, default=None
        Refuse a model that was not saved with this ``sign_key``.
    endpoint : str, default=None
        Address of another server with the same interface.
    """
    with atomic_folder(Path(path), why_not_a_model if force else None) as folder:
        with _hub_errors(repository) as hub:
            hub.snapshot_download(
                repository,
                revision=revision,
                local_dir=folder,
                allow_patterns=list(FILES),
                endpoint=endpoint,
            )
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # notes of the download
        try:
            load(folder, require_signature=require_signature)
        except ModelError as error:
            raise ModelError(
                f"{repository} is not a model that can be used: {error}; nothing was written"
            ) from error


@contextmanager
def _hub_errors(repository: str) -> Iterator[Any]:
    """Yield the module of the Hub; its errors say which repository, and what to do."""
    try:
        import huggingface_hub
    except ModuleNotFoundError as missing:
        remedy = f"pip install 'rembrandt[{EXTRA}]'"
        raise RembrandtError(
            f"{missing.name} is not installed; the Hugging Face Hub needs: {remedy}"
        ) from missing
    import httpx
    from huggingface_hub import errors

    try:
        yield huggingface_hub
    except errors.HFValidationError as error:
        message = f"{repository!r} is not the name of a repository; give 'account/model'"
        raise StorageError(message) from error
    except errors.RepositoryNotFoundError as error:
        raise StorageError(
            f"there is no repository {repository}, or it is private; check the name, and log in "
            "with 'hf auth login'"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise StorageError(f"{repository} has no such revision; check its name") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        remedy = "log in with 'hf auth login'" if status in (401, 403) else "try again later"
        raise StorageError(
            f"the Hub refused the request for {repository} with status {status}; {remedy}"
        ) from error
    except (httpx.HTTPError, errors.LocalEntryNotFoundError) as error:
        message = f"the Hub cannot be reached for {repository} ({error}); check the network"
        raise StorageError(message) from error
