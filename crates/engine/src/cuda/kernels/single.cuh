// Warps that multiply each for itself.

#if GROUPED == 0

struct MoverB : Mover<TILE_N, B_INNER, B_VECTOR, B_MATRIX, B_STEADY, B_SEGMENT, B_STEP, B_JUMP> {
    __device__ __forceinline__ void start(const Product& p, const Block& block, int warp_k, float* to) {
        Mover::start(p.b, block.replica, block.first_n, p.n, block.warp_n, warp_k, to);
    }

    __device__ __forceinline__ void show() const {}

    __device__ __forceinline__ void wait(int, int) const {}
};

// The sum of a column of a tile.
__device__ __forceinline__ float column_sum(const float* tile, int column) {
    float sum = 0.f;
#pragma unroll 8
    for (int k = 0; k < TILE_K; ++k) sum += tile[MoverB::place(column, k)];
    return sum;
}

// What a warp multiplies at a time: 8 terms of its rows and columns.
struct Fragments {
    Factor a[M_FRAGMENTS][4], b[N_FRAGMENTS][2];

    __device__ __forceinline__ void read(const MoverA& mover, const float* tile_a,
                                         const float* own_b, int k) {
#pragma unroll
        for (int i = 0; i < M_FRAGMENTS; ++i) {
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                a[i][part] = factor(mover.at(tile_a, i, part % 2, k + part / 2 * 4));
            }
        }
#pragma unroll
        for (int j = 0; j < N_FRAGMENTS; ++j) {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                b[j][part] = factor(own_b[MoverB::place(8 * j, k + part * 4)]);
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

// What warps multiply at a time. The next fragments are read while the last ones are multiplied, where
// registers allow.
struct Stretch {
    __device__ __forceinline__ void read(const MoverA&, const float*) {}

    __device__ __forceinline__ void multiply(float (&c)[M_FRAGMENTS][N_FRAGMENTS][4],
                                             const MoverA& mover_a, const float* a,
                                             const MoverB& mover_b, const float* b) {
        constexpr int STEPS = TILE_K / (8 * WARPS_K);
        constexpr bool AHEAD = TERMS == 1;
        const float* own_b = b + mover_b.own;
        Fragments fragments[2];
        if (AHEAD) fragments[0].read(mover_a, a, own_b, 0);
        if (AHEAD) {
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                int k = 8 * WARPS_K * (step + 1);
                if (step + 1 < STEPS) fragments[(step + 1) % 2].read(mover_a, a, own_b, k);
                fragments[step % 2].add_to(c);
            }
        } else {
#pragma unroll 1
            for (int step = 0; step < STEPS; ++step) {
                fragments[0].read(mover_a, a, own_b, 8 * WARPS_K * step);
                fragments[0].add_to(c);
            }
        }
    }
};

#endif
