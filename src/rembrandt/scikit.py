"""What the package uses of scikit-learn, without loading all that scikit-learn loads.

Importing it imports SciPy's statistics and special functions and pandas, which take longer
than all the rest of a short command, and uses them in functions that are not called here. They are
stood in for while it is imported, and load where they are first used.
"""

import scipy

from rembrandt.deferred import OF_NUMPY, deferred

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "TransformerMixin",
    "_check_feature_names",
    "_check_sample_weight",
    "available_if",
    "check_array",
    "check_classification_targets",
    "check_is_fitted",
    "column_or_1d",
    "validate_data",
]


# SciPy itself is loaded before: its submodules load when they are read.
_ = scipy.__version__
with deferred("scipy.special", "scipy.stats", "pandas", *OF_NUMPY):
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        TransformerMixin,
    )
    from sklearn.utils import column_or_1d
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_feature_names,
        _check_sample_weight,
        check_array,
        check_is_fitted,
        validate_data,
    )
