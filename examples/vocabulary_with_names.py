"""A hierarchical vocabulary with names: labels are identifiers, people see names, and parents count
too.

Libraries have such vocabularies as SKOS. Needs ``pip install 'rembrandt[skos]'``. On the command
line: ``rembrandt fit train.csv --label-names vocabulary.ttl ...``.
"""

import tempfile
from pathlib import Path

from rdflib import Graph
from rdflib.namespace import SKOS

from rembrandt import RembrandtClassifier
from rembrandt.data.label_names import read_label_names

VOCABULARY = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix : <http://example.org/> .
:1 a skos:Concept ; skos:prefLabel "Food"@en , "Essen"@de .
:2 a skos:Concept ; skos:prefLabel "Bread"@en ; skos:broader :1 .
:3 a skos:Concept ; skos:prefLabel "Rye bread"@en ; skos:broader :2 .
:4 a skos:Concept ; skos:prefLabel "Soup"@en ; skos:broader :1 .
"""

with tempfile.TemporaryDirectory() as name:
    file = Path(name) / "vocabulary.ttl"
    file.write_text(VOCABULARY, encoding="utf-8")
    names = read_label_names(file)  # {"http://example.org/1": "Food", ...}
    parents = {
        str(child): str(parent)
        for child, parent in Graph().parse(file).subject_objects(SKOS.broader)
    }


def with_ancestors(label: str) -> list[str]:
    """The label, its parent, the parent of that, and so on."""
    return [label, *(with_ancestors(parents[label]) if label in parents else [])]


texts = [
    "rye dough",
    "a bowl of broth",
    "wheat dough and yeast",
    "sour rye starter",
    "simmering broth",
] * 20
subjects = [with_ancestors(f"http://example.org/{number}") for number in (3, 4, 2, 3, 4)] * 20

classifier = RembrandtClassifier(preset="fast", random_state=0).fit(
    texts, subjects, label_names=names
)
for text, found in zip(["rye", "broth"], classifier.predict_labels(["rye", "broth"]), strict=True):
    print(f"{text}: {', '.join(found)}")
print(classifier.predict_frame(["rye"], k=3)[["label", "name", "probability"]])
