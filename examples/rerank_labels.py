"""The best labels of texts, ranked again by a cross-encoder or by a language model.

A reranker is any object with ``score(text, names)``, which returns a number for each name. Here are
two of them. Run without arguments, the script ranks by words that text and name share; with the
address and the name of a model behind an API like that of OpenAI, it asks this model::

    python examples/rerank_labels.py http://localhost:8000/v1 my-model
"""

import json
import os
import sys
from urllib.request import Request, urlopen

from rembrandt import RembrandtClassifier, Reranker

NAMES = {
    "D1": "Baking bread and rolls",
    "D2": "Bread machines",
    "D3": "Cleaning iron pans",
    "D4": "Frying in iron pans",
}
TEXTS = {
    "D1": "knead the dough for bread or rolls",
    "D2": "my machine kneads the dough for bread",
    "D3": "how to clean rust from an iron pan",
    "D4": "fry an egg in an iron pan",
}


class CrossEncoder:
    """A cross-encoder of sentence-transformers, such as "cross-encoder/ms-marco-MiniLM-L6-v2"."""

    def __init__(self, name: str) -> None:
        import sentence_transformers

        self.model = sentence_transformers.CrossEncoder(name)

    def score(self, text: str, names: list[str]) -> list[float]:
        return self.model.predict([(text, name) for name in names]).tolist()


class LanguageModel:
    """A language model behind an address that speaks the protocol of OpenAI's API."""

    def __init__(self, address: str, model: str, timeout: float = 30.0) -> None:
        self.address = address.rstrip("/")
        self.model = model
        self.timeout = timeout

    def score(self, text: str, names: list[str]) -> list[float]:
        listed = "\n".join(f"{number}. {name}" for number, name in enumerate(names))
        question = (
            "How well does each subject fit the text? Answer with a JSON list of "
            f"{len(names)} numbers from 0 to 10, in the order of the subjects, and nothing else."
            "\n\n"
            f"Text: {text}\n\nSubjects:\n{listed}"
        )
        body = {
            "model": self.model,
            "temperature": 0,
            "messages": [{"role": "user", "content": question}],
        }
        headers = {"Content-Type": "application/json"}
        key = os.environ.get("OPENAI_API_KEY")
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = Request(
            f"{self.address}/chat/completions", json.dumps(body).encode(), headers=headers
        )
        with urlopen(request, timeout=self.timeout) as response:
            answer = json.load(response)
        return json.loads(answer["choices"][0]["message"]["content"])


class SharedWords:
    """The number of words that a text and a name share."""

    def score(self, text: str, names: list[str]) -> list[float]:
        words = set(text.lower().split())
        return [float(len(words & set(name.lower().split()))) for name in names]


def main(arguments: list[str]) -> None:
    classifier = RembrandtClassifier(preset="fast", random_state=0)
    classifier.fit([*TEXTS.values()] * 10, [*TEXTS] * 10, label_names=NAMES)
    scorer = LanguageModel(*arguments) if arguments else SharedWords()
    reranker = Reranker(scorer, n_labels=4)
    held_out = ["rolls of dough", "a machine for bread", "clean the pans", "frying in pans"]
    reranker.learn_weight(classifier, held_out, [*TEXTS])
    print(f"learned weight: {reranker.weight:.2f}")
    text = "which machines make bread"
    for name in ("without", "with"):
        labels, probabilities = classifier.predict_topk(
            [text], 2, reranker=reranker if name == "with" else None
        )
        ranked = ", ".join(
            f"{NAMES[label]} {probability:.2f}"
            for label, probability in zip(labels[0], probabilities[0], strict=True)
        )
        print(f"{name} reranker: {ranked}")


if __name__ == "__main__":
    main(sys.argv[1:])
