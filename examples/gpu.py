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
# With encoder="sentence-transformers/all-MiniLM-L6-v2" a pretrained encoder is fine-tuned too.
classifier = RembrandtClassifier(random_state=0, device="cuda").fit_dataset(train)
print(classifier.predict_topk(test.texts[:3], k=3)[0])

with tempfile.TemporaryDirectory() as folder:
    classifier.save(Path(folder) / "model")
    anywhere = load(Path(folder) / "model")  # device="cuda" predicts on the GPU
    print(anywhere.predict_topk(test.texts[:3], k=3)[0])
