"""``rembrandt push`` and ``pull``: models on the Hugging Face Hub."""

from typing import Annotated

from rembrandt.cli import options
from rembrandt.cli.console import Console
from rembrandt.cli.describe import saved_line
from rembrandt.cli.options import flag, option
from rembrandt.cli.output import check_model_target, folder_size

Repository = Annotated[str, options.argument("REPOSITORY", "Name on the Hub: account/model.")]


def push(
    model: options.ModelFolder,
    repository: Repository,
    *,
    private: Annotated[bool, flag("--private", "Make a new repository private.")] = False,
    console: Console,
) -> None:
    """Upload a model to the Hugging Face Hub.

    The account is the one of hf auth login, or of the token in HF_TOKEN. The model and its card are
    uploaded, and nothing else of the folder. A model has the words and labels of its training data;
    think of that before you make it public.
    """
    from rembrandt.sharing import push as push_model

    address = push_model(model, repository, private)
    console.say(f"Uploaded {model} as {repository}: {address}")
    console.result({"model": str(model), "repository": repository, "commit": address})


def pull(
    repository: Repository,
    *,
    output: options.NewModel,
    revision: Annotated[
        str | None, option("Branch, tag or commit; else the newest.", metavar="NAME")
    ] = None,
    force: options.Force = False,
    console: Console,
) -> None:
    """Download a model from the Hugging Face Hub.

    The model is checked before the folder appears, and nothing in it is run.
    """
    import time

    from rembrandt.sharing import pull as pull_model

    check_model_target(output, force)
    start = time.perf_counter()
    pull_model(repository, output, revision, force)
    console.say(saved_line(output, time.perf_counter() - start, "Downloaded"))
    console.result({"model": str(output), "repository": repository, "bytes": folder_size(output)})
