"""Data frames in and out: the index of the input is the index of the predictions."""

import pandas as pd

from rembrandt import RembrandtClassifier

articles = pd.DataFrame(
    {
        "title": [
            "Yeast and dough",
            "Salmon in the oven",
            "Simmering a broth",
            "Kneading dough by hand",
        ]
        * 15,
        "tags": [["bread"], ["fish", "oven"], ["soup"], ["bread", "hands"]] * 15,
    },
    index=[f"article-{i}" for i in range(60)],
)
articles.loc["article-3", "tags"] = None  # no label: the row is kept, and counted

classifier = RembrandtClassifier(preset="fast", random_state=0).fit(
    articles["title"], articles["tags"]
)

new = pd.Series(["Dough for pizza", "A salmon broth"], index=["pizza", "salmon"])
print(classifier.predict_frame(new, k=2))  # a row for each label: label, name, probability, rank
print(classifier.predict_labels(new))  # a list of labels for each row
