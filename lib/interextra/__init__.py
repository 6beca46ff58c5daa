"""interextra: do neural retrievers interpolate or extrapolate?

A thin library under numbered notebooks. Imports go downwards only: data, splits, models, evaluation, study.
"""

__version__ = "0.1.0"
