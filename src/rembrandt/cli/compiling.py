"""``rembrandt compile``: compile for this machine now, so that no fit has to wait for it."""

from rembrandt.cli.console import Console
from rembrandt.errors import counted


def compile_now(console: Console) -> None:
    """Compile for this machine, so that the first fit does not have to.

    Run it once when the image of a container is built, as the user who may write into the
    installed package. NUMBA_CACHE_DIR names another folder.
    """
    from rembrandt.kernels.caching import writable_folder
    from rembrandt.kernels.compiling import compile_kernels

    with console.progress() as report:
        n_compiled = compile_kernels(report)
    folder = writable_folder()
    if folder is not None:
        console.say(f"{counted(n_compiled, 'function')} compiled; they are kept in {folder}.")
    console.result({"compiled": n_compiled, "folder": None if folder is None else str(folder)})
