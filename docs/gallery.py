"""Order and pictures of the gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

from ropecli.render.figure import describe, figure_bytes

#: Examples in the order of a first visit; others follow by name.
FIRST = (
    "teach_rope",
    "which_rope_is_this",
    "cuda_kernel_in_ci",
    "llama3_to_128k",
    "figure1",
    "figure2",
    "where_i_begins",
    "relative_position",
    "does_the_score_decay",
    "yarn_upside_down",
    "one_cache_for_all",
    "positions_in_bfloat16",
    "shifted_a_thousand_times",
    "tables_of_the_other_layout",
    "positions_of_packed_sequences",
    "frequencies_of_heads",
    "layout_mixup",
    "broken_config",
    "one_file_two_stacks",
)


class Order:
    """Key to sort the examples by."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        stem = Path(name).stem
        return FIRST.index(stem) if stem in FIRST else len(FIRST), stem


def pictures(_block: Any, example: dict[str, Any], settings: dict[str, Any]) -> str:
    """Save the figure that a block of an example ends with, and return its place on the page."""
    picture = example["example_globals"].get("___")
    if not isinstance(picture, Figure) or picture is example.get("shown"):
        return ""
    example["shown"] = picture
    path = Path(next(example["image_path_iterator"]))
    command = f"examples/{Path(example['src_file']).name}"
    path.write_bytes(figure_bytes(picture, suffix=".png", command=command))
    return figure_rst([str(path)], settings["src_dir"], describe(picture)[1])
