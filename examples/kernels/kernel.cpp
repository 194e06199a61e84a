// RoPE from .npy file to .npy file: pairs (i, i + dim/2), base 10000, angles in double.
// build: g++ -O2 -std=c++17 kernel.cpp -o kernel
// check: ropecli check --command "./kernel {x} {positions} {out}" --layout half --base 10000
#include <cmath>
#include <complex>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

struct Npy {
    std::string file;
    long shape[8], axes = 0, count = 1;
    char *data;
    Npy(const char *path, const char *dtype) {
        std::ifstream in(path, std::ios::binary);
        file.assign(std::istreambuf_iterator<char>(in), {});
        data = file.data() + 10 + uint8_t(file.at(8)) + 256 * uint8_t(file.at(9));
        if (file.find(dtype) == file.npos) throw std::runtime_error(dtype);
        std::istringstream numbers(file.substr(file.find('(') + 1));
        for (long n; numbers >> n; numbers.ignore(1)) count *= shape[axes++] = n;
    }
};

int main(int, char **argv) {
    Npy a(argv[1], "'<f4'"), b(argv[2], "'<i8'");
    auto x = reinterpret_cast<float *>(a.data);
    long dim = a.shape[a.axes - 1], length = a.shape[a.axes - 2], rows = a.count / dim;
    for (long row = 0; row < rows; row++, x += dim)
        for (long i = 0; i < dim / 2; i++) {
            long place = row * b.count / rows / length * length + row % length;
            double angle = reinterpret_cast<int64_t *>(b.data)[place] * std::pow(1e4, -2.0 * i / dim);
            auto z = std::complex<double>(x[i], x[i + dim / 2]) * std::polar(1.0, angle);
            x[i] = z.real(), x[i + dim / 2] = z.imag();
        }
    std::ofstream(argv[3], std::ios::binary).write(a.file.data(), a.file.size());
}
