"""Examples of every command, for the ends of the help pages."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("rembrandt demo --output demo-model",),
    "fit": (
        "rembrandt fit train.csv --output model",
        "rembrandt fit train.tsv --text title,abstract --labels tags --label-separator ';' "
        "--output model",
        "rembrandt fit train.jsonl --text doc.title --labels doc.tags --preset fast --output model",
    ),
    "tune": ("rembrandt tune train.csv --budget 5m", "rembrandt tune train.csv --output model"),
    "update": (
        "rembrandt update model new.csv",
        "rembrandt update model new.csv --history train.csv --output updated",
    ),
    "predict": (
        "echo 'How do I season a pan?' | rembrandt predict model -",
        "rembrandt predict model new.csv --output labels.csv --top-k 5",
    ),
    "evaluate": ("rembrandt evaluate model test.csv --by-frequency",),
    "embed": ("rembrandt embed train.csv --text title --labels tags --output vectors.npz",),
    "explain": ("echo 'How do I season a pan?' | rembrandt explain model -",),
    "labels": ("rembrandt labels model", "rembrandt labels model --set-names names.tsv"),
    "confusions": ("rembrandt confusions model test.csv --pairs 10",),
    "neighbors": ("rembrandt neighbors model baking",),
    "spectrum": ("rembrandt spectrum model",),
    "info": ("rembrandt info model",),
    "map": ("rembrandt map model --output map.png --labels 1000",),
    "report": ("rembrandt report model test.csv --output report.html",),
    "suggest": (
        "rembrandt suggest model new.txt --output next.csv",
        "rembrandt suggest model new.txt --corrections corrections.jsonl --output next.csv",
        "rembrandt suggest model new.txt --for label-studio --output tasks.json",
    ),
    "compile": ("rembrandt compile",),
    "serve": ("rembrandt serve model --port 8080",),
    "push": ("rembrandt push model account/model --private",),
    "pull": ("rembrandt pull account/model --output model",),
    "data list": ("rembrandt data list",),
    "data get": ("rembrandt data get pubmed-mesh",),
    "data convert": (
        "rembrandt data convert part-1.tsv part-2.tsv --text title --labels tags --output store",
    ),
    "data split": (
        "rembrandt data split all.csv --output parts",
        "rembrandt data split all.csv --output parts --fraction 0.1 --groups author",
    ),
}


def epilog(verb: str) -> str | None:
    """Return the end of the help page of a command; None if it has no examples.

    Typer shows a paragraph as a line.
    """
    examples = EXAMPLES.get(verb)
    if examples is None:
        return None
    title = "Example:" if len(examples) == 1 else "Examples:"
    return "\n\n".join([title, *(f"  $ {example}" for example in examples)])
