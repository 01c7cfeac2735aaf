"""Few-shot seeds: shared by all items, hence crossed with them and not more items.

Two-way variance of the grand mean of items x seeds: the item part keeps its strata and clusters,
the seed part is added, and Satterthwaite's formula gives the degrees of freedom.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sameweights.attribution.inference import Floats, Means


def add_seed_variance(means: Means, by_seed: Floats) -> Means:
    """Means with the variance of the seeds added.

    by_seed [S, n, k]: item contributions under each of S >= 2 seeds; their average over seeds gave
    `means`. Var = Var_items + max(MS_seeds - MS_residual, 0) / (n S); a negative seed component
    counts as none.
    """
    seeds, n, _ = by_seed.shape
    grand = by_seed.mean(axis=(0, 1))
    seed_means = by_seed.mean(axis=1)
    item_means = by_seed.mean(axis=0)
    residual = by_seed - seed_means[:, None] - item_means[None] + grand
    df_seeds, df_residual = seeds - 1, (seeds - 1) * max(n - 1, 1)
    ms_seeds = n * ((seed_means - grand) ** 2).sum(axis=0) / df_seeds
    ms_residual = (residual**2).sum(axis=(0, 1)) / df_residual
    item_var = np.diag(means.cov)
    seed_var = np.maximum(ms_seeds - ms_residual, 0.0) / (n * seeds)
    spread = (
        item_var**2 / np.maximum(means.df, 1)
        + (ms_seeds / (n * seeds)) ** 2 / df_seeds
        + (ms_residual / (n * seeds)) ** 2 / df_residual
    )
    total = item_var + seed_var
    df = np.where(spread > 0, total**2 / np.where(spread > 0, spread, 1.0), means.df)
    cov = means.cov + np.diag(seed_var)
    # A very unsettled seed can push the formula below one; one is the least that has a quantile.
    return replace(means, cov=cov, df=np.where(means.df < 1, means.df, np.maximum(df, 1.0)))
