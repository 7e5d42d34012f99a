"""Labels are added to a saved model on the command line, and served."""

from pathlib import Path

import httpx

from rembrandt import RembrandtClassifier, load
from tests.cli.conftest import Run
from tests.serve.conftest import TOKEN, served
from tests.test_zero_shot import WORDS, documents


def test_labels_are_added_on_the_command_line_and_served(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    texts, labels = documents(800)
    RembrandtClassifier(preset="fast", random_state=0).fit(texts, labels).save(folder)
    table = tmp_path / "names.tsv"
    table.write_text(f"id\tname\tdescription\nD78\t{WORDS[200]}\tmore\n{WORDS[3]}\tKnown\t\n")
    text = f"{WORDS[120]} {WORDS[200]}"
    with served({"kitchen": folder}, token=TOKEN) as url:
        right = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=url, headers=right, timeout=60) as client:
            document = run("labels", folder, "--add", table, "--json").json
            assert document["n_added"] == 1
            client.post("/v1/models/kitchen/reload").raise_for_status()
            answer = client.post("/v1/predict", json={"texts": [text], "top_k": 1}).json()
    assert answer["predictions"][0][0]["label"] == "D78"
    assert load(folder).label_names_[WORDS[3]] == "Known"
