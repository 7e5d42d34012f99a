"""Fit and predict on a GPU. A model does not depend on where it was fitted. Needs ``pip install
'rembrandt[gpu]'``.
"""

import sys
import tempfile
from pathlib import Path

import torch

from rembrandt import RembrandtClassifier, load
from rembrandt.data.generated import labelled_documents

if not torch.cuda.is_available():
    sys.exit("there is no GPU that torch can use; device='auto' would take the CPU")

train, test = labelled_documents(5000, n_topics=20, labels_per_topic=10)
# With encoder="sentence-transformers/all-MiniLM-L6-v2" a pretrained encoder is fine-tuned too: one
# more part of the model.
classifier = RembrandtClassifier(random_state=0, device="cuda").fit_dataset(train)
print(classifier.predict_topk(test.texts[:3], k=3)[0])
# What each part adds to the log-odds of the best label of a text.
explanation = classifier.explain(test.texts[:1])[0][0]
for part, contribution in explanation.parts.items():
    print(f"{explanation.label}: {part} {contribution:+.2f}")

with tempfile.TemporaryDirectory() as folder:
    classifier.save(Path(folder) / "model")
    anywhere = load(Path(folder) / "model")  # device="cuda" predicts on the GPU
    print(anywhere.predict_topk(test.texts[:3], k=3)[0])
