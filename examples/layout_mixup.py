"""What does a layout mix-up look like?
====================================

Norms and relative scores stay right; the scores do not. Weights that were trained with neighbouring
pairs and run in halves give another model, and no law of rotations notices.
"""

import numpy as np
from matplotlib.figure import Figure

import ropecli

trained = ropecli.Rotary(head_dim=64, layout="interleaved")
run = ropecli.Rotary(head_dim=64, layout="half")
distance = np.arange(64)

picture = Figure(layout="constrained")
axes = picture.subplots()
for rope, line in ((trained, "-"), (run, "--")):
    ones = ropecli.rotate(np.tile([2.0, 1.0] * 32, (64, 1)), rope)
    score = ones @ ones[0]
    print(f"{rope.layout:11}  " + "  ".join(f"{value:+7.2f}" for value in score[:5]))
    axes.plot(distance, score, line, label=rope.layout)
axes.set(xlabel="distance", ylabel="score of q = k = (2, 1, 2, 1, ...)")
picture.legend(loc="outside lower center", ncols=2)
picture.savefig("layout_mixup.png")
picture

# %%
# A comparison with the layout that is expected shows it:

ropecli.verify(trained, dtype="float64", rotate=lambda x, p: ropecli.rotate(x, run, positions=p))
