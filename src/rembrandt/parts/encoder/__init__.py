"""A pretrained encoder that reads the texts, fine-tuned to the labels or frozen."""
