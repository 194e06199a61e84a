// RoPE from .npy file to .npy file: pairs (i, i + dim/2), base 10000, angles in f64.
// build: rustc -O --edition 2021 kernel.rs -o kernel
// check: ropecli check --command "./kernel {x} {positions} {out}" --layout half --base 10000
use std::{env, fs};

/// The bytes of a file, where its data begin, and its shape.
fn load(path: &str, dtype: &str) -> (Vec<u8>, usize, Vec<usize>) {
    let file = fs::read(path).expect(path);
    let begin = 10 + u16::from_le_bytes([file[8], file[9]]) as usize;
    let header = String::from_utf8_lossy(&file[10..begin]).to_string();
    assert!(header.contains(dtype), "expected {dtype}");
    let shape = header.split(['(', ')']).nth(1).unwrap().split(',');
    let shape = shape.filter_map(|word| word.trim().parse().ok()).collect();
    (file, begin, shape)
}

fn main() {
    let paths: Vec<String> = env::args().collect();
    let (mut file, begin, shape) = load(&paths[1], "'<f4'");
    let (places, first, of_positions) = load(&paths[2], "'<i8'");
    let (dim, length) = (shape[shape.len() - 1], shape[shape.len() - 2]);
    let (rows, count) = (file[begin..].len() / 4 / dim, of_positions.iter().product::<usize>());
    for row in 0..rows {
        let at = first + 8 * (row * count / rows / length * length + row % length);
        let m = i64::from_le_bytes(places[at..at + 8].try_into().unwrap()) as f64;
        for i in 0..dim / 2 {
            let (s, c) = (m * 1e4_f64.powf(-2.0 * i as f64 / dim as f64)).sin_cos();
            let [p, q] = [i, i + dim / 2].map(|j| begin + 4 * (row * dim + j));
            let [u, v] = [p, q].map(|j| f32::from_le_bytes(file[j..j + 4].try_into().unwrap()) as f64);
            file[p..p + 4].copy_from_slice(&((u * c - v * s) as f32).to_le_bytes());
            file[q..q + 4].copy_from_slice(&((u * s + v * c) as f32).to_le_bytes());
        }
    }
    fs::write(&paths[3], file).expect("can't write");
}
