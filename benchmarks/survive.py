"""Kill a fit at random moments and resume it: is the model the same?

python -m benchmarks.survive [--kills 20] [--examples 1500] [--folder /tmp] [--device cpu]

``rembrandt fit`` first runs without interruption, with and without checkpoints. Then each trial
starts it in a new folder, sends SIGKILL at a random moment within the duration of the fit, and runs
the same command again. The time is counted from the moment when the command creates its checkpoint
folder, after Python has started. Two models are the same if their weights are equal byte for byte
and their descriptions are equal except for durations.
"""

import argparse
import csv
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rembrandt.data.generated import labelled_documents

FITS = {
    "logistic": "--decoder logistic --kernel gaussian --n-random-features 500 --decoder-ridge 0 --normalize no "
    "--leave-out 0",
    # The blend is learned on held-out examples, so that a search is interrupted too.
    "trees": "--parts trees,embedding --decoder ridge --kernel none --decoder-ridge 0.1 --normalize no "
    "--leave-out 0.5",
}
DURATIONS = {"seconds", "fit_seconds"}


def main(
    kills: int = 20,
    examples: int = 1500,
    folder: str | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, Any]:
    """Interrupt and resume every kind of fit, and print whether the models are the same."""
    root = Path(tempfile.mkdtemp(dir=folder, prefix="rembrandt-survive-"))
    try:
        _write(root / "train.tsv", examples)
        rng = np.random.default_rng(seed)
        found = {}
        for number, (name, options) in enumerate(FITS.items()):
            own = kills // 2 + (kills % 2 if number == 0 else 0)
            found[name] = _killed(
                root / name, root / "train.tsv", [*options.split(), "--device", device], own, rng
            )
        same = sum(case["same"] for cases in found.values() for case in cases["kills"])
        print(
            f"{same} of {kills} resumed models are equal, bit for bit, to the model of an uninterrupted fit"
        )
        return found | {"same": same, "of": kills}
    finally:
        shutil.rmtree(root)


def _write(path: Path, examples: int) -> None:
    train, _ = labelled_documents(examples, n_topics=10, labels_per_topic=20)
    assert train.texts is not None
    labels = [
        "|".join(train.label_ids[i] for i in train.Y[[row]].indices)
        for row in range(train.n_examples)
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerows([("text", "labels"), *zip(train.texts, labels, strict=True)])


def _killed(
    root: Path, train: Path, options: list[str], kills: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Run one kind of fit without interruption, then interrupt and resume it ``kills`` times."""
    root.mkdir()
    base = [
        sys.executable,
        "-m",
        "rembrandt",
        "fit",
        str(train),
        "--text",
        "text",
        "--labels",
        "labels",
    ]
    base += ["--label-separator", "|", "--quiet", *options, "--output"]

    def run(
        output: str, checkpoint: str | None, kill_after: float | None = None
    ) -> tuple[float, int]:
        more = [] if checkpoint is None else ["--checkpoint", str(root / checkpoint)]
        process = subprocess.Popen([*base, str(root / output), *more], stdout=subprocess.DEVNULL)
        while (
            checkpoint is not None and process.poll() is None and not (root / checkpoint).exists()
        ):
            time.sleep(0.005)
        start = time.perf_counter()
        try:
            process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return time.perf_counter() - start, process.returncode

    _, code = run("uninterrupted", None)
    seconds, other = run("with-checkpoints", "checkpoints")
    if code or other:
        sys.exit(f"the uninterrupted fit ended with exit code {code or other}")
    expected = _model(root / "uninterrupted")
    verdict = _verdict(_model(root / "with-checkpoints") == expected)
    print(f"{root.name}: {seconds:.1f} s with checkpoints; {verdict} as without checkpoints")
    cases = []
    for number, drawn in enumerate(sorted(rng.uniform(0, seconds, kills).tolist())):
        moment = drawn
        output, folder = f"resumed-{number}", root / f"checkpoints-{number}"
        while (
            run(output, folder.name, moment)[1] != -signal.SIGKILL
        ):  # it ended before; kill it earlier
            shutil.rmtree(folder)
            shutil.rmtree(root / output)
            moment /= 2
        done = (
            sorted({file.name.split(".")[0] for file in folder.glob("*.safetensors")})
            if folder.exists()
            else []
        )
        steps = [int(file.name.split(".")[1]) for file in folder.glob("epoch.*")]
        if (root / output).exists():
            shutil.rmtree(root / output)  # killed after the model was saved
        again, code = run(output, folder.name)
        same = code == 0 and _model(root / output) == expected
        stages = (
            ", ".join(f"{stage} {max(steps)}" if stage == "epoch" else stage for stage in done)
            or "no stage"
        )
        print(
            f"  killed after {moment:5.1f} s, {stages} completed; resumed {again:5.1f} s; {_verdict(same)}",
            flush=True,
        )
        cases.append(
            {
                "moment": moment,
                "done": done,
                "epoch": max(steps, default=0),
                "again": again,
                "same": same,
            }
        )
    return {"seconds": seconds, "kills": cases}


def _model(folder: Path) -> tuple[bytes, Any]:
    """Return the weights and the description of a saved model, without durations."""
    metadata = json.loads((folder / "model.json").read_text())["metadata"]
    return (folder / "weights.safetensors").read_bytes(), _without_durations(metadata)


def _without_durations(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_durations(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_durations(each) for name, each in value.items() if name not in DURATIONS}


def _verdict(same: bool) -> str:
    return "the same model" if same else "A DIFFERENT MODEL"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--examples", type=int, default=1500)
    parser.add_argument("--folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    found = main(**vars(parser.parse_args()))
    sys.exit(found["same"] != found["of"])
