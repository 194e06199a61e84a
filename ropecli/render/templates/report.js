"use strict";

// Tables: a button in each heading sorts by its column, first up and then down.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.textContent.trim();
    return "value" in cell.dataset ? Number(cell.dataset.value || text) : text;
  };
  const compare = (a, b) => {
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return typeof a === "number" ? a - b || 0 : a.localeCompare(b, "en", { numeric: true });
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const falls = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => compare(key(a, column), key(b, column)));
      body.append(...(falls ? rows.reverse() : rows));
    });
  });
}

// Sliders: they turn the hands of each wheel, and move the marks of the curves.
const controls = document.getElementById("controls");
if (controls !== null) {
  const TURN = 2 * Math.PI;
  const position = document.getElementById("position");
  const distance = document.getElementById("distance");
  const marks = document.getElementById("decay-marks");
  const point = (angle, radius) => [radius * Math.cos(angle), -radius * Math.sin(angle)];
  const spell = (number) => number.toFixed(4);

  const turn = (wheel, m, r) => {
    for (const ring of wheel.querySelectorAll(".ring")) {
      const theta = Number(ring.dataset.theta);
      const radius = Number(ring.dataset.radius);
      const query = point(m * theta, radius);
      const key = point((m - r) * theta, radius);
      const long = (r * Math.abs(theta)) % TURN > Math.PI ? 1 : 0;
      const way = theta < 0 ? 1 : 0;
      const arc = `M ${key.join(" ")} A ${radius} ${radius} 0 ${long} ${way} ${query.join(" ")}`;
      ring.querySelector("path").setAttribute("d", arc);
      for (const [name, [x, y]] of [["query", query], ["key", key]]) {
        const dot = ring.querySelector(`.${name}`);
        dot.setAttribute("cx", x);
        dot.setAttribute("cy", y);
      }
    }
  };

  // The mean of |S_j|, S_j the sum of e^(i r theta) over the first j pairs, and that of cosines.
  const measure = (thetas, r) => {
    let [x, y, bound] = [0, 0, 0];
    for (const theta of thetas) {
      x += Math.cos(r * theta);
      y += Math.sin(r * theta);
      bound += Math.hypot(x, y);
    }
    return { bound: bound / thetas.length, cosine: x / thetas.length };
  };

  const show = () => {
    const m = Number(position.value);
    const r = Number(distance.value);
    document.getElementById("query-at").textContent = m.toLocaleString("en");
    document.getElementById("key-at").textContent = (m - r).toLocaleString("en");
    document.getElementById("apart").textContent = r.toLocaleString("en");
    const dots = marks === null ? [] : [...marks.querySelectorAll("circle")];
    const [x0, x1] = marks === null ? [0, 0] : marks.dataset.x.split(" ").map(Number);
    const [y0, y1] = marks === null ? [0, 0] : marks.dataset.y.split(" ").map(Number);
    for (const end of ["x1", "x2"]) marks?.querySelector("line").setAttribute(end, x0 + x1 * r);
    for (const wheel of document.querySelectorAll(".wheel")) {
      turn(wheel, m, r);
      const { bound, cosine } = measure(wheel.dataset.thetas.split(" ").map(Number), r);
      wheel.querySelector(".cosine").textContent = spell(cosine);
      const shown = wheel.querySelector(".bound");
      if (shown === null) continue;
      shown.textContent = spell(bound);
      const dot = dots.shift();
      dot.setAttribute("cx", x0 + x1 * r);
      dot.setAttribute("cy", y0 + y1 * bound);
    }
  };

  // No key is in front of the text: one slider takes the other along.
  position.addEventListener("input", () => {
    if (Number(distance.value) > Number(position.value)) distance.value = position.value;
    show();
  });
  distance.addEventListener("input", () => {
    if (Number(distance.value) > Number(position.value)) position.value = distance.value;
    show();
  });
  show(); // a page that is loaded again may have kept its sliders
  controls.hidden = false;
}
