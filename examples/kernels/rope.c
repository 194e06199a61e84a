// RoPE in a shared library: pairs (i, i + dim/2), base 10000, angles in double.
// build: gcc -O2 -shared -fPIC rope.c -lm -o librope.so
// check: ropecli check librope.so:rope_f32 --layout half --base 10000
#include <math.h>
#include <stdint.h>

/// x and out: (batch, heads, length, head_dim); positions: (batch, length). 0 if all is well.
int rope_f32(const float *x, float *out, const int64_t *positions,
             int64_t batch, int64_t heads, int64_t length, int64_t head_dim) {
    const int64_t half = head_dim / 2;
    if (head_dim % 2) return 1;  // refused
    for (int64_t row = 0; row < batch * heads * length; row++, x += head_dim, out += head_dim)
        for (int64_t i = 0; i < half; i++) {
            const int64_t m = positions[row / (heads * length) * length + row % length];
            const double angle = m * pow(10000, -2.0 * i / head_dim);
            const double c = cos(angle), s = sin(angle);
            out[i] = x[i] * c - x[i + half] * s;
            out[i + half] = x[i] * s + x[i + half] * c;
        }
    return 0;
}
