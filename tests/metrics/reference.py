"""The measures written the slow and obvious way, row by row over dense truth."""

import math


def evaluate(truth, labels, counts, n_train, A, B, ks):
    n, c = truth.shape
    C = (math.log(n_train) - 1) * (B + 1) ** A
    inverse = [1 + C * (counts[label] + B) ** -A for label in range(c)]
    table = {}
    for k in ks:
        hits, ndcg, gained, ideal, recall, f1, labelled = 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0
        for i in range(n):
            true = {label for label in range(c) if truth[i, label]}
            ranked = [int(label) for label in labels[i][:k]]
            hits += sum(label in true for label in ranked)
            right = sum(label in true for label in ranked)
            if true:
                labelled += 1
                recall += right / len(true)
                f1 += 2 * right / (len(true) + sum(label >= 0 for label in ranked))
            gain = sum(1 / math.log2(r + 2) for r, label in enumerate(ranked) if label in true)
            best = sum(1 / math.log2(r + 2) for r in range(min(k, len(true))))
            ndcg += gain / best if best else 0.0
            gained += sum(inverse[label] for label in ranked if label in true)
            ideal += sum(sorted((inverse[label] for label in true), reverse=True)[:k])
        table |= {
            f"p@{k}": hits / n / k,
            f"ndcg@{k}": ndcg / n,
            f"psp@{k}": gained / ideal if ideal else 0.0,
        }
        table |= {f"r@{k}": recall / max(labelled, 1), f"f1@{k}": f1 / max(labelled, 1)}
    return table | {"error": 1 - table["p@1"]}
