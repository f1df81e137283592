// The sums of a product, on the tensor cores.

// What a warp multiplies at a time: 8 terms of its rows and columns.
struct Fragments {
    Factor a[M_FRAGMENTS][4], b[N_FRAGMENTS][2];

    __device__ __forceinline__ void read(const MoverA& mover, const float* tile_a,
                                         const float* tile_b, int warp_n, int k) {
        int group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                a[i][part] = factor(mover.at(tile_a, i, part % 2, k + lane + part / 2 * 4));
            }
        }
#pragma unroll
        for (int j = 0; j < N_FRAGMENTS; ++j) {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                int column = warp_n + 8 * j + group;
                b[j][part] = factor(MoverB::read(tile_b, column, k + lane + part * 4));
            }
        }
    }

    __device__ __forceinline__ void add_to(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4]) const {
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int j = 0; j < N_FRAGMENTS; ++j) {
                multiply(c[i][j], a[i], b[j]);
            }
        }
    }
};

// The next fragments are read while the last ones are multiplied, where registers allow.
__device__ __forceinline__ void multiply_tile(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4],
                                              const MoverA& mover, const float* a,
                                              const float* b, int warp_n, int warp_k) {
    constexpr int STEPS = TILE_K / (8 * WARPS_K);
    constexpr bool AHEAD = TERMS == 1;
    Fragments fragments[2];
    if (AHEAD) fragments[0].read(mover, a, b, warp_n, 8 * warp_k);
    if (AHEAD) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            int k = 8 * ((step + 1) * WARPS_K + warp_k);
            if (step + 1 < STEPS) fragments[(step + 1) % 2].read(mover, a, b, warp_n, k);
            fragments[step % 2].add_to(c);
        }
    } else {
#pragma unroll 1
        for (int step = 0; step < STEPS; ++step) {
            fragments[0].read(mover, a, b, warp_n, 8 * (step * WARPS_K + warp_k));
            fragments[0].add_to(c);
        }
    }
}
