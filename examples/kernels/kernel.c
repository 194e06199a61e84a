// RoPE from .npy file to .npy file: pairs (i, i + dim/2), base 10000, angles in double.
// build: gcc -O2 kernel.c -lm -o kernel
// check: ropecli check --command "./kernel {x} {positions} {out}" --layout half --base 10000
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char *file, *data; long size, count, shape[8], axes; } Npy;

static Npy load(const char *path, const char *dtype) {
    Npy a = {.count = 1};
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END), a.size = ftell(f), rewind(f);
    a.file = calloc(a.size + 1, 1);
    if (fread(a.file, 1, a.size, f) != (size_t)a.size || !strstr(a.file + 10, dtype))
        fprintf(stderr, "expected %s in %s\n", dtype, path), exit(1);
    a.data = a.file + 10 + (uint8_t)a.file[8] + 256 * (uint8_t)a.file[9];
    for (char *p = strchr(a.file + 10, '(') + 1; *p != ')'; p += strspn(p, ", "))
        a.count *= a.shape[a.axes++] = strtol(p, &p, 10);
    return fclose(f), a;
}

int main(int argc, char **argv) {
    Npy a = load(argv[1], "'<f4'"), b = load(argv[2], "'<i8'");
    float *x = (float *)a.data;
    long dim = a.shape[a.axes - 1], length = a.shape[a.axes - 2], rows = a.count / dim;
    for (long row = 0; row < rows; row++, x += dim)
        for (long i = 0; i < dim / 2; i++) {
            long place = row * b.count / rows / length * length + row % length;
            double angle = ((int64_t *)b.data)[place] * pow(10000, -2.0 * i / dim);
            float u = x[i], v = x[i + dim / 2];
            x[i] = u * cos(angle) - v * sin(angle);
            x[i + dim / 2] = u * sin(angle) + v * cos(angle);
        }
    return argc != 4 || fwrite(a.file, 1, a.size, fopen(argv[3], "wb")) != (size_t)a.size;
}
