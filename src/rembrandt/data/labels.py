import numpy as np


class LabelIndex:
    def __init__(self, names):
        self._c = {n: i for i, n in enumerate(names)}

    def columns(self, names):
        return np.array([self._c.get(n, -1) for n in names], np.int64)
