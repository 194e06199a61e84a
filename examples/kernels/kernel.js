// RoPE from .npy file to .npy file: pairs (i, i + dim/2), base 10000, angles in double.
// check: ropecli check --command "node kernel.js {x} {positions} {out}" --layout half --base 10000
const fs = require("fs");

/** Return the bytes of a file, those of its data, and its shape. */
function load(path, dtype) {
  const file = fs.readFileSync(path);
  const begin = 10 + file.readUInt16LE(8);
  const header = file.toString("latin1", 10, begin);
  if (!header.includes(dtype)) throw new Error(`expected ${dtype}`);
  const shape = header.match(/\(([^)]*)\)/)[1].split(",").filter((word) => word.trim()).map(Number);
  return { file, data: file.subarray(begin), shape };
}

const x = load(process.argv[2], "'<f4'");
const positions = load(process.argv[3], "'<i8'");
const [length, dim] = x.shape.slice(-2);
const rows = x.data.length / 4 / dim;
const count = positions.data.length / 8;
for (let row = 0; row < rows; row++) {
  const place = Math.floor(Math.floor((row * count) / rows) / length) * length + (row % length);
  const m = Number(positions.data.readBigInt64LE(8 * place));
  for (let i = 0; i < dim / 2; i++) {
    const angle = m * 10000 ** ((-2 * i) / dim);
    const [c, s] = [Math.cos(angle), Math.sin(angle)];
    const [p, q] = [i, i + dim / 2].map((j) => 4 * (row * dim + j));
    const [u, v] = [x.data.readFloatLE(p), x.data.readFloatLE(q)];
    x.data.writeFloatLE(u * c - v * s, p);
    x.data.writeFloatLE(u * s + v * c, q);
  }
}
fs.writeFileSync(process.argv[4], x.file);
