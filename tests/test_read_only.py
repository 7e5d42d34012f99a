"""A fit, a saved model and a prediction on a system where nothing can be written, without a home."""

import os
import shutil
import subprocess
import sys

import pytest

# Makes every mounted file system read-only, for the processes of this name space alone.
READ_ONLY = """
mount --make-rprivate / || exit 1
while read -r _ point _ options _; do
  case ",$options," in
    *,rw,*) mount -o "remount,bind,ro,${options#rw,}" "$point" || exit 1 ;;
  esac
done < /proc/self/mounts
exec "$@"
"""
IS_READ_ONLY = """
import os, tempfile
try:
    tempfile.gettempdir()
except FileNotFoundError:  # no folder can be written
    print("read-only")
"""
FIT_AND_PREDICT = """
from rembrandt import RembrandtClassifier
texts = ["red apple", "green apple", "red car", "fast car"] * 30
labels = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 30
classifier = RembrandtClassifier(parts=("centroids",), random_state=0).fit(texts, labels)
print(classifier.predict_labels(["an apple"], k=1))
"""


def run_read_only(*command, **environment):
    """Run a command where nothing can be written; without HOME and all other variables."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare(1) on this system to make its file systems read-only")
    name_space = [unshare, "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh"]
    paths = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]}
    return subprocess.run(
        [*name_space, *command], env=paths | environment, capture_output=True, text=True
    )


@pytest.fixture(scope="module", autouse=True)
def _is_permitted():
    done = run_read_only(sys.executable, "-c", IS_READ_ONLY)
    if done.stdout.strip() != "read-only":
        pytest.skip(f"the kernel lets this user make nothing read-only: {done.stderr[-200:]}")


def test_a_fit_where_nothing_can_be_written_compiles_in_memory_and_says_so():
    done = run_read_only(sys.executable, "-c", FIT_AND_PREDICT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[['fruit']]\n"
    assert "no folder for compiled code can be written" in done.stderr


def test_kernels_that_were_compiled_before_are_read_where_nothing_can_be_written(tmp_path):
    folder = os.environ.get("NUMBA_CACHE_DIR", str(tmp_path))
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    subprocess.run([sys.executable, "-c", FIT_AND_PREDICT], env=environment, check=True)
    done = run_read_only(sys.executable, "-c", FIT_AND_PREDICT, NUMBA_CACHE_DIR=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[['fruit']]\n"
    assert "Compiling" not in done.stderr


def test_the_command_predicts_from_a_model_that_cannot_be_written(tmp_path):
    program = f"{FIT_AND_PREDICT}\nclassifier.save({str(tmp_path / 'model')!r})"
    subprocess.run([sys.executable, "-c", program], check=True)
    text = tmp_path / "text.txt"
    text.write_text("a red car\n", encoding="utf-8")
    command = [sys.executable, "-m", "rembrandt", "predict", str(tmp_path / "model"), str(text)]
    folder = os.environ.get("NUMBA_CACHE_DIR", "")
    done = run_read_only(*command, NUMBA_CACHE_DIR=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("vehicle ")
