"""A fine-tuned encoder with one output a label, as a user of transformers would write it: random
start, linear schedule, and a number of epochs that is set by hand for each data set.
"""

from typing import Any

import numpy as np

EPOCHS = {"cooking": 20, "gutenberg": 12, "nvd-products": 8, "nvd-versions": 8, "pubmed-mesh": 15}
OTHER_EPOCHS = 12
TOKENS = {"cooking": 32, "gutenberg": 48, "icd10cm": 32, "pubmed-mesh": 256}
OTHER_TOKENS = 128
BATCH = 128
NETWORK_RATE = 2e-4
HEAD_RATE = 3e-3
BEST = 5


def fit_plain(
    name: str,
    texts: list[str],
    Y: Any,
    test_texts: list[str],
    encoder: str,
    device: str,
    seed: int = 0,
    epochs: int | None = None,
) -> np.ndarray:
    """Fine-tune on texts and labels (n × c), and return the best labels (m × 5) of test texts."""
    import torch
    from transformers import AutoModel, AutoTokenizer, get_linear_schedule_with_warmup

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    epochs = epochs or EPOCHS.get(name, OTHER_EPOCHS)
    most = TOKENS.get(name, OTHER_TOKENS)
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    train_ids = tokenizer(texts, truncation=True, max_length=most)["input_ids"]
    test_ids = tokenizer(test_texts, truncation=True, max_length=most)["input_ids"]
    network = AutoModel.from_pretrained(encoder).to(device)
    head = torch.nn.Linear(network.config.hidden_size, Y.shape[1]).to(device)
    torch.nn.init.normal_(head.weight, std=0.02)
    rates = np.clip(np.asarray(Y.mean(axis=0)).ravel(), 0.5 / len(texts), 0.5)
    head.bias.data = torch.tensor(np.log(rates / (1 - rates)), dtype=torch.float32, device=device)
    optimizer = torch.optim.AdamW(
        [
            {"params": network.parameters(), "lr": NETWORK_RATE, "weight_decay": 0.01},
            {"params": head.parameters(), "lr": HEAD_RATE, "weight_decay": 0.0},
        ]
    )
    n_steps = epochs * -(-len(texts) // BATCH)
    schedule = get_linear_schedule_with_warmup(optimizer, round(0.06 * n_steps), n_steps)
    on_gpu = device.startswith("cuda")

    def logits_of(rows: list[list[int]]) -> Any:
        batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt").to(device)
        with torch.autocast(device.split(":")[0], dtype=torch.bfloat16, enabled=on_gpu):
            hidden = network(
                input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]
            ).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            mean = (hidden * mask).sum(1) / mask.sum(1)
            return head(torch.nn.functional.dropout(mean, 0.1, head.training)).float()

    network.train()
    for epoch in range(epochs):
        order = rng.permutation(len(texts))
        for start in range(0, len(texts), BATCH):
            rows = order[start : start + BATCH]
            logits = logits_of([train_ids[row] for row in rows])
            target = torch.zeros_like(logits)
            true = [torch.from_numpy(indices).to(device) for indices in Y[rows].nonzero()]
            target[true[0].long(), true[1].long()] = 1
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                logits, target, reduction="sum"
            ) / len(rows)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print(f"    plain, epoch {epoch + 1} of {epochs}: last loss {loss.item():.3f}", flush=True)
    network.eval()
    head.eval()
    best = []
    with torch.no_grad():
        for start in range(0, len(test_ids), BATCH):
            logits = logits_of(test_ids[start : start + BATCH])
            best.append(logits.topk(min(BEST, Y.shape[1])).indices.cpu().numpy())
    return np.vstack(best)
