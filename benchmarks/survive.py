"""A fit that is killed at random moments, and given again: is the model the same?

python -m benchmarks.survive [--kills 20] [--examples 1500] [--folder /tmp] [--device cpu]

``rembrandt fit`` runs undisturbed, without checkpoints and with. Then, for each of the kills, it is begun in a new
folder, gets SIGKILL at a moment drawn evenly from the time that the fit took, and is given again. The clock starts when
the command takes its folder, after Python has started. A model is the same when its weights are the same bytes and what
it says about itself is the same, but for the seconds that it took.
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

DECODERS = {
    "logistic": "--decoder logistic --kernel gaussian --n-random-features 500 --decoder-ridge 0 --normalize no",
    "sparse": "--sparse --decoder ridge --kernel none --decoder-ridge 0.1 --normalize no",
}


def main(
    kills: int = 20, examples: int = 1500, folder: str | None = None, seed: int = 0, device: str = "cpu"
) -> dict[str, Any]:
    """Kill, go on, compare, and print."""
    place = Path(tempfile.mkdtemp(dir=folder, prefix="rembrandt-survive-"))
    try:
        _write(place / "train.tsv", examples)
        rng = np.random.default_rng(seed)
        found = {}
        for number, (name, options) in enumerate(DECODERS.items()):
            share = kills // 2 + (kills % 2 if number == 0 else 0)
            found[name] = _killed(place / name, place / "train.tsv", [*options.split(), "--device", device], share, rng)
        same = sum(case["same"] for cases in found.values() for case in cases["kills"])
        print(f"{same} of {kills} models are the same, bit for bit, as one that was not disturbed")
        return found | {"same": same, "of": kills}
    finally:
        shutil.rmtree(place)


def _write(path: Path, examples: int) -> None:
    train, _ = labelled_documents(examples, n_topics=10, labels_per_topic=20)
    assert train.texts is not None
    labels = ["|".join(train.label_names[i] for i in train.Y[[row]].indices) for row in range(train.n_examples)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerows([("text", "labels"), *zip(train.texts, labels, strict=True)])


def _killed(place: Path, train: Path, options: list[str], kills: int, rng: np.random.Generator) -> dict[str, Any]:
    place.mkdir()
    base = [sys.executable, "-m", "rembrandt", "fit", str(train), "--text", "text", "--labels", "labels"]
    base += ["--label-separator", "|", "--quiet", *options, "--output"]

    def run(output: str, checkpoint: str | None, kill_after: float | None = None) -> tuple[float, int]:
        more = [] if checkpoint is None else ["--checkpoint", str(place / checkpoint)]
        process = subprocess.Popen([*base, str(place / output), *more], stdout=subprocess.DEVNULL)
        while checkpoint is not None and process.poll() is None and not (place / checkpoint).exists():
            time.sleep(0.005)
        start = time.perf_counter()
        try:
            process.wait(kill_after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return time.perf_counter() - start, process.returncode

    _, code = run("undisturbed", None)
    kept, other = run("kept", "kept-checkpoints")
    if code or other:
        sys.exit(f"the undisturbed fit ended with exit code {code or other}")
    whole = _model(place / "undisturbed")
    print(
        f"{place.name}: {kept:.1f} s with checkpoints; without them it is " + _verdict(_model(place / "kept") == whole)
    )
    cases = []
    for number, drawn in enumerate(sorted(rng.uniform(0, kept, kills).tolist())):
        moment = drawn
        output, folder = f"resumed-{number}", place / f"checkpoints-{number}"
        while run(output, folder.name, moment)[1] != -signal.SIGKILL:  # it was done before: another time, and earlier
            shutil.rmtree(folder)
            shutil.rmtree(place / output)
            moment /= 2
        done = sorted({file.name.split(".")[0] for file in folder.glob("*.safetensors")}) if folder.exists() else []
        steps = [int(file.name.split(".")[1]) for file in folder.glob("epoch.*")]
        if (place / output).exists():
            shutil.rmtree(place / output)  # killed between saving the model and the end
        again, code = run(output, folder.name)
        same = code == 0 and _model(place / output) == whole
        stages = ", ".join(f"{stage} {max(steps)}" if stage == "epoch" else stage for stage in done) or "nothing"
        print(f"  killed after {moment:5.1f} s with {stages} done; {again:5.1f} s more; {_verdict(same)}", flush=True)
        cases.append({"moment": moment, "done": done, "epoch": max(steps, default=0), "again": again, "same": same})
    return {"seconds": kept, "kills": cases}


def _model(folder: Path) -> tuple[bytes, Any]:
    """All that a saved model is, but for the time that it took."""
    facts = json.loads((folder / "model.json").read_text())["metadata"]
    del facts["extra"]["extra"]["fit_seconds"]
    return (folder / "weights.safetensors").read_bytes(), facts


def _verdict(same: bool) -> str:
    return "the same model" if same else "ANOTHER MODEL"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--examples", type=int, default=1500)
    parser.add_argument("--folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    found = main(**vars(parser.parse_args()))
    sys.exit(found["same"] != found["of"])
