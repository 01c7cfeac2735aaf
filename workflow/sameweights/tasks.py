"""lm-eval's tasks on the hub: found by name, set up alike for rendering and for scoring."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sameweights.errors import UserError, did_you_mean


def load_tasks(
    names: Sequence[str], seed: int, num_fewshot: int | None, include_path: Path | None
) -> dict[str, Any]:
    """Load lm-eval's tasks as its `simple_evaluate` does; return {"tasks": .., "groups": ..}.

    Local tasks come from `include_path`; lm-eval's own index is read only when a name is not
    there. A data set that is on no disk is downloaded unless HF_DATASETS_OFFLINE is set.
    Raises UserError for an unknown name.
    """
    logging.getLogger("lm_eval").setLevel(logging.WARNING)
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    # The demo needs no network, so that a hub that is out of reach is not waited for.
    manager = _manager(include_path, include_defaults=False)
    if any(name not in manager.all_tasks for name in names):
        manager = _manager(include_path, include_defaults=True)
    else:
        os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for name in names:
        if name not in manager.all_tasks:
            near = did_you_mean(name, [n for n in manager.all_tasks if n[:1] == name[:1]])
            raise UserError(f"config: tasks: no task {name!r}{near[:300]}")
    random.seed(seed)
    np.random.seed(seed)
    loaded: dict[str, Any] = manager.load(list(names))
    for task in loaded["tasks"].values():
        # The same rule as lm-eval's: a task that fixes zero examples keeps zero.
        if num_fewshot is not None and task.get_config("num_fewshot") != 0:
            task.set_config(key="num_fewshot", value=num_fewshot)
        elif task.get_config("num_fewshot") is None:
            task.set_config(key="num_fewshot", value=0)
        task.set_fewshot_seed(seed=seed)
    return loaded


def _manager(include_path: Path | None, include_defaults: bool) -> Any:
    from lm_eval.tasks import TaskManager

    path = str(include_path) if include_path else None
    return TaskManager(include_path=path, include_defaults=include_defaults)
